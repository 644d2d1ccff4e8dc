// SPDX-License-Identifier: GPL-2.0

//! Allocation, registration and unregistration of a driver's devices: `ib_register_device` of `include/rdma/ib_verbs.h`.

use core::{ops::Deref, ptr, ptr::NonNull};

use kernel::{error::to_result, prelude::*};
use kernel_ext::net::{device::NetDevice, ns::NetNamespace};
use rdma_bindings as bindings;

use super::{
    device::{Device, DeviceRef},
    methods::Provider,
    ops::ProviderOps,
};
use crate::MaySleep;

/// The properties of a device that are set before it is registered.
pub struct DeviceInfo<'a> {
    /// `enum rdma_node_type`: [`NODE_IB_CA`](crate::abi::device::NODE_IB_CA) for RoCE.
    pub node_type: u8,
    /// The number of ports, which are numbered from 1.
    pub phys_port_cnt: u32,
    /// The number of completion vectors.
    pub num_comp_vectors: u32,
    /// The node GUID, big endian.
    pub node_guid: [u8; 8],
    /// The node description, which is truncated to 63 bytes.
    pub node_desc: &'a [u8],
    /// The local key of all kernel memory, for a device with `IBK_LOCAL_DMA_LKEY`.
    pub local_dma_lkey: u32,
    /// The `write()` commands besides those that all devices support; see [`uverbs_cmd`](crate::abi::device::uverbs_cmd).
    pub uverbs_cmd_mask: u64,
}

impl<P: Provider> Device<P> {
    /// Allocates a device that belongs to the network namespace `net` if namespaces do not share devices; `None` stands
    /// for the initial one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `init`.
    pub fn alloc<E>(
        init: impl PinInit<P, E>,
        net: Option<&NetNamespace>,
        _sleep: &MaySleep,
    ) -> Result<NewDevice<P>>
    where
        Error: From<E>,
    {
        let net = net.map_or(&raw mut bindings::init_net, |net| net.as_raw().cast());
        // SAFETY: The size is at least that of an `ib_device`; `net` is a valid namespace.
        let raw = unsafe { bindings::_ib_alloc_device(size_of::<Self>(), net) };
        let this = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: The device was just allocated with this size.
        if let Err(err) = unsafe { Self::init_data(this, init) } {
            // SAFETY: This function owns the device, which has no methods yet.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(err.into());
        }
        let mut ops = ProviderOps::<P>::OPS;
        ops.owner = P::module().as_ptr().cast();
        // SAFETY: This function owns the device; the core copies the methods. They are those of a `Device<P>`, whose data
        // was just initialised.
        unsafe { bindings::ib_set_device_ops(raw, &ops) };
        Ok(NewDevice(this.cast()))
    }
}

/// A device that is not registered yet. Dropping it deallocates the device.
///
/// # Invariants
///
/// `self` owns the device, which is not registered.
pub struct NewDevice<P: Provider>(NonNull<Device<P>>);

// SAFETY: `self` owns the device, which may be used from any thread.
unsafe impl<P: Provider> Send for NewDevice<P> {}

impl<P: Provider> Deref for NewDevice<P> {
    type Target = Device<P>;

    #[inline]
    fn deref(&self) -> &Device<P> {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl<P: Provider> NewDevice<P> {
    /// Sets the properties of the device.
    pub fn describe(&mut self, info: &DeviceInfo<'_>) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants only `self` uses the device, and it is borrowed mutably.
        let raw = unsafe { &mut *raw };
        raw.node_type = info.node_type;
        raw.phys_port_cnt = info.phys_port_cnt;
        raw.num_comp_vectors = i32::try_from(info.num_comp_vectors).unwrap_or(i32::MAX);
        raw.node_guid = u64::from_ne_bytes(info.node_guid);
        raw.local_dma_lkey = info.local_dma_lkey;
        raw.uverbs_cmd_mask |= info.uverbs_cmd_mask;
        let last = raw.node_desc.len() - 1;
        for (to, from) in raw.node_desc[..last].iter_mut().zip(info.node_desc) {
            *to = *from;
        }
    }

    /// Lets programs allocate memory of the device: it has the methods of [`Provider::alloc_dm`], which a device has not otherwise.
    pub fn offer_device_memory(&mut self) {
        let ops = ProviderOps::<P>::DEVICE_MEMORY;
        // SAFETY: By the type invariants only `self` uses the device; the core copies the methods. They are those of a `Device<P>`.
        unsafe { bindings::ib_set_device_ops(self.as_raw(), &ops) };
    }

    /// Sets the net device of a port, to which the core takes a reference. The core fills the port's GID table from the
    /// addresses of that net device.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port, `ENOMEM`.
    pub fn set_netdev(&mut self, ndev: &NetDevice, port_num: u32, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the device is valid; `ndev` is a valid net device.
        to_result(unsafe {
            bindings::ib_device_set_netdev(self.as_raw(), ndev.as_raw().cast(), port_num)
        })
    }

    /// Registers the device under `name`, which may contain one `%d` for a free number.
    ///
    /// The device does no DMA: the core passes kernel addresses, see [`VirtDma`](crate::VirtDma). Methods may be called
    /// from now on. On success the core owns the device, which other threads may unregister at any time.
    ///
    /// # Errors
    ///
    /// `ENFILE` if the name is in use, `EINVAL` for an invalid name, `ENOMEM`, and those of the methods that it calls. On
    /// an error the device is deallocated.
    pub fn register(self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the device is not registered; a null DMA device stands for a software device.
        to_result(unsafe {
            bindings::ib_register_device(self.as_raw(), name.as_char_ptr(), ptr::null_mut())
        })?;
        core::mem::forget(self);
        Ok(())
    }
}

impl<P: Provider> Drop for NewDevice<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the device. The function calls `dealloc_driver`, which drops the
        // data.
        unsafe { bindings::ib_dealloc_device(self.as_raw()) };
    }
}

impl<P: Provider> DeviceRef<P> {
    /// Finds the device of this driver that has a port with the net device `ndev`. Any context.
    pub fn by_netdev(ndev: &NetDevice) -> Option<Self> {
        // SAFETY: `ndev` is a valid net device.
        let raw = unsafe {
            bindings::ib_device_get_by_netdev(ndev.as_raw().cast(), P::DRIVER_ID.number())
        };
        let raw = NonNull::new(raw)?;
        // SAFETY: By the header the core has taken a reference for the result, so the device is valid.
        if !unsafe { is_of::<P>(raw) } {
            // SAFETY: This function owns the reference.
            unsafe { bindings::ib_device_put(raw.as_ptr()) };
            return None;
        }
        // SAFETY: The device is one of `P`, and this function owns the reference.
        Some(unsafe { Self::from_raw(raw) })
    }
}

/// Whether a device is of `P`. Other drivers with the same identifier may exist, in this module or in another one.
///
/// # Safety
///
/// The device is valid.
unsafe fn is_of<P: Provider>(raw: NonNull<bindings::ib_device>) -> bool {
    // SAFETY: By the safety requirements.
    let dealloc = unsafe { (*raw.as_ptr()).ops.dealloc_driver };
    let ours = ProviderOps::<P>::OPS.dealloc_driver;
    let is_made_here = dealloc
        .zip(ours)
        .is_some_and(|(dealloc, ours)| core::ptr::fn_addr_eq(dealloc, ours));
    // The entry points of two types may be one function, if the compiler makes the same code of them.
    // SAFETY: The entry point is one of `ProviderOps` in this module: `Device::alloc` alone sets it.
    is_made_here && unsafe { Device::<P>::is(raw) }
}

/// Unregisters all devices with the identifier of the driver `P`, also those of another driver that has the same one, and waits for
/// pending unregistrations. A module calls it when it is unloaded, after it has stopped making new devices.
pub fn unregister_driver<P: Provider>(_sleep: &MaySleep) {
    // SAFETY: Devices from `Device::alloc` have `dealloc_driver`, as the header demands. The core unregisters each device once: the
    // other devices stay with their drivers, which free them.
    unsafe { bindings::ib_unregister_driver(P::DRIVER_ID.number()) };
}
