// SPDX-License-Identifier: GPL-2.0

//! How a driver allocates, registers and unregisters its devices: `ib_register_device` of `include/rdma/ib_verbs.h`.

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

/// What a device says of itself before it is registered.
pub struct DeviceInfo<'a> {
    /// `enum rdma_node_type`: [`NODE_IB_CA`](crate::abi::device::NODE_IB_CA) for RoCE.
    pub node_type: u8,
    /// The number of ports; they count from 1.
    pub phys_port_cnt: u32,
    /// The number of completion vectors.
    pub num_comp_vectors: u32,
    /// The node's GUID, its bytes in the order of the wire.
    pub node_guid: [u8; 8],
    /// The node's description; what is longer than 63 bytes is cut off.
    pub node_desc: &'a [u8],
    /// A key for all of the kernel's memory, if the device says that it has one.
    pub local_dma_lkey: u32,
    /// The commands of user space besides those that all devices have; see [`uverbs_cmd`](crate::abi::device::uverbs_cmd).
    pub uverbs_cmd_mask: u64,
}

impl<P: Provider> Device<P> {
    /// Allocates a device that belongs to `net`, while namespaces do not share devices; without
    /// one to the first namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `init` fails with.
    pub fn alloc<E>(
        init: impl PinInit<P, E>,
        net: Option<&NetNamespace>,
        _sleep: &MaySleep,
    ) -> Result<NewDevice<P>>
    where
        Error: From<E>,
    {
        let net = net.map_or(&raw mut bindings::init_net, |net| net.as_raw().cast());
        // SAFETY: The size is that of an `ib_device` and more; `net` is a namespace.
        let raw = unsafe { bindings::_ib_alloc_device(size_of::<Self>(), net) };
        let this = NonNull::new(raw).ok_or(ENOMEM)?;
        // SAFETY: The device was just allocated at this size.
        if let Err(err) = unsafe { Self::init_data(this, init) } {
            // SAFETY: The device is ours, and has no methods yet.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(err.into());
        }
        let mut ops = ProviderOps::<P>::OPS;
        ops.owner = P::module().as_ptr().cast();
        // SAFETY: The device is ours; the core copies the methods. They are those of a
        // `Device<P>`, which this is from now on.
        unsafe { bindings::ib_set_device_ops(raw, &ops) };
        Ok(NewDevice(this.cast()))
    }
}

/// A device that is not registered yet: deallocated when dropped.
///
/// # Invariants
///
/// Nobody else knows of the device.
pub struct NewDevice<P: Provider>(NonNull<Device<P>>);

// SAFETY: A device may be used from any thread.
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
    /// Says what the device is.
    pub fn describe(&mut self, info: &DeviceInfo<'_>) {
        let raw = self.as_raw();
        // SAFETY: By the type invariants.
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

    /// Gives a port its net device, to which the core holds a reference from then on. The core
    /// keeps the port's GID table by the addresses of that net device.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that is not there, `ENOMEM`.
    pub fn set_netdev(&mut self, ndev: &NetDevice, port_num: u32, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants; `ndev` is a net device.
        to_result(unsafe {
            bindings::ib_device_set_netdev(self.as_raw(), ndev.as_raw().cast(), port_num)
        })
    }

    /// Registers the device under `name`, which may contain one `%d` for a free number.
    ///
    /// The device does no DMA: the core hands over the kernel's addresses, see
    /// [`VirtDma`](crate::VirtDma). Methods may be called from now on. When this succeeds, the
    /// core owns the device, which may be unregistered at any time by others.
    ///
    /// # Errors
    ///
    /// `ENFILE` if the name is taken, `EINVAL` for one that is none, `ENOMEM`, and what the methods
    /// answer that it calls; the device is deallocated then.
    pub fn register(self, name: &CStr, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants; a null device is one without DMA.
        to_result(unsafe {
            bindings::ib_register_device(self.as_raw(), name.as_char_ptr(), ptr::null_mut())
        })?;
        core::mem::forget(self);
        Ok(())
    }
}

impl<P: Provider> Drop for NewDevice<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants. It calls `dealloc_driver`, which drops the data.
        unsafe { bindings::ib_dealloc_device(self.as_raw()) };
    }
}

impl<P: Provider> DeviceRef<P> {
    /// The device of this driver whose port has the net device `ndev`. Any context.
    pub fn by_netdev(ndev: &NetDevice) -> Option<Self> {
        // SAFETY: `ndev` is a net device.
        let raw = unsafe { bindings::ib_device_get_by_netdev(ndev.as_raw().cast(), P::DRIVER_ID) };
        let raw = NonNull::new(raw)?;
        // Another module's driver may have the same number: its devices are not ours.
        // SAFETY: The core has taken a reference for us.
        let ours = unsafe { (*raw.as_ptr()).ops.owner == P::module().as_ptr().cast() };
        if !ours {
            // SAFETY: The reference is ours.
            unsafe { bindings::ib_device_put(raw.as_ptr()) };
            return None;
        }
        // SAFETY: The device is one of `P`, and the reference is ours.
        Some(unsafe { Self::from_raw(raw) })
    }
}

/// Unregisters all devices of the driver `P`, and waits until all that were being unregistered
/// are: what a module must do before it goes. New ones must not be made any more.
pub fn unregister_driver<P: Provider>(_sleep: &MaySleep) {
    // SAFETY: Devices of the driver have `dealloc_driver`.
    unsafe { bindings::ib_unregister_driver(P::DRIVER_ID) };
}
