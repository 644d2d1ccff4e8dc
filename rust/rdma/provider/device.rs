// SPDX-License-Identifier: GPL-2.0

//! Devices: `struct ib_device`.

use core::{mem::MaybeUninit, ops::Deref, ptr, ptr::NonNull};

use kernel::{error::to_result, prelude::*, types::Opaque};
use kernel_ext::net::{device::NetDevice, ns::NetNamespace};
use rdma_bindings::{self as bindings, ib_device};

use crate::{
    abi::event::DeviceEvent,
    provider::{
        event::new_event,
        link::{Link, LinkOps},
        ops::ProviderOps,
    },
    MaySleep, Provider,
};

/// A device: the core's structure, and the driver's data, to which it dereferences.
///
/// # Invariants
///
/// The data is initialised until the core calls `dealloc_driver`; no method runs after that, and
/// no reference outlives it.
#[repr(C)]
pub struct Device<P> {
    base: Opaque<ib_device>,
    data: MaybeUninit<P>,
}

// SAFETY: The core's structure may be used from any thread.
unsafe impl<P: Send> Send for Device<P> {}
// SAFETY: As above.
unsafe impl<P: Sync> Sync for Device<P> {}

impl<P> Deref for Device<P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        // SAFETY: By the type invariants.
        unsafe { self.data.assume_init_ref() }
    }
}

/// What a device says of itself before it is registered.
pub struct DeviceInfo<'a> {
    /// `enum rdma_node_type`: [`NODE_IB_CA`] for RoCE.
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
    /// The commands of user space besides those that all devices have; see [`uverbs_cmd`].
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
        const { assert!(align_of::<Self>() == align_of::<ib_device>()) };
        // SAFETY: The size is that of an `ib_device` and more; `net` is a namespace.
        let raw = unsafe { bindings::_ib_alloc_device(size_of::<Self>(), net) };
        let this = NonNull::new(raw.cast::<Self>()).ok_or(ENOMEM)?;
        // SAFETY: The data is behind the core's structure, zeroed, and will not be moved.
        let done = unsafe { init.__pinned_init((&raw mut (*this.as_ptr()).data).cast()) };
        if let Err(err) = done {
            // SAFETY: The device is ours, and has no methods yet.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(err.into());
        }
        let mut ops = ProviderOps::<P>::OPS;
        ops.owner = P::module().as_ptr().cast();
        // SAFETY: The device is ours; the core copies the methods. They are those of a
        // `Device<P>`, which this is from now on.
        unsafe { bindings::ib_set_device_ops(raw, &ops) };
        Ok(NewDevice(this))
    }
}

impl<P> Device<P> {
    /// Borrows a device.
    ///
    /// # Safety
    ///
    /// `raw` must be a device that [`Self::alloc`] made and that is not deallocated within `'a`.
    #[inline]
    pub unsafe fn from_raw<'a>(raw: *mut ib_device) -> &'a Self {
        // SAFETY: By the safety requirements; `base` comes first.
        unsafe { &*raw.cast() }
    }

    /// Drops the driver's data.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`]; nobody may use the device as one of `P` any more.
    pub(crate) unsafe fn drop_data(raw: *mut ib_device) {
        // SAFETY: By the safety requirements and the type invariants.
        unsafe { (*raw.cast::<Self>()).data.assume_init_drop() };
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_device {
        self.base.get()
    }

    /// The device's name. It is valid now, but a user may change it at any time.
    pub fn name(&self) -> &CStr {
        // SAFETY: `name` is an array that ends with a NUL at all times.
        unsafe { CStr::from_char_ptr((&raw const (*self.as_raw()).name).cast()) }
    }

    /// Tells the clients of what happened to the device or to a port. May be called in any
    /// context: the handlers run later, from a work queue.
    pub fn dispatch_event(&self, event: DeviceEvent, port_num: u32) {
        let mut event = new_event(self.as_raw(), event.as_raw());
        event.element.port_num = port_num;
        // SAFETY: The event is one of this device.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Changes the node's description; for `modify_device`.
    pub fn set_node_desc(&self, desc: &[u8; 64]) {
        // SAFETY: `self` is a device; the core writes the field without a lock as well.
        unsafe {
            ptr::copy_nonoverlapping(
                desc.as_ptr(),
                (&raw mut (*self.as_raw()).node_desc).cast(),
                desc.len(),
            )
        };
    }

    /// A reference that keeps the device registered; `None` if it is not, or not any more.
    pub fn try_get(&self) -> Option<DeviceRef<P>> {
        // SAFETY: `self` is a device.
        let got = unsafe { bindings::ib_device_try_get(self.as_raw()) };
        got.then(|| DeviceRef(NonNull::from(self)))
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

    /// Says which kind of link the device is: `rdma link delete` asks there. The user has given such
    /// a device its name, so that udev does not rename it.
    pub fn set_link<L: LinkOps>(&mut self, link: &'static Link<L>) {
        // SAFETY: By the type invariants; the link is there for ever.
        unsafe {
            (*self.as_raw()).link_ops = link.as_raw();
            (*self.as_raw()).name_assign_type = bindings::RDMA_NAME_ASSIGN_TYPE_USER;
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

/// A reference that keeps a device registered: unregistration waits for it, so hold it shortly.
///
/// # Invariants
///
/// The device is registered, and one reference is ours.
pub struct DeviceRef<P>(NonNull<Device<P>>);

// SAFETY: A device may be used from any thread.
unsafe impl<P: Send + Sync> Send for DeviceRef<P> {}
// SAFETY: As above.
unsafe impl<P: Send + Sync> Sync for DeviceRef<P> {}

impl<P> Deref for DeviceRef<P> {
    type Target = Device<P>;

    #[inline]
    fn deref(&self) -> &Device<P> {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
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
        Some(Self(raw.cast()))
    }
}

impl<P> DeviceRef<P> {
    /// Starts unregistration from a work queue. May be called under locks that unregistration
    /// takes, the RTNL for one. Drop the reference soon: unregistration waits for it, and
    /// [`unregister_driver`] waits for that.
    pub fn unregister_queued(&self) {
        // SAFETY: By the type invariants; the device has `dealloc_driver`.
        unsafe { bindings::ib_unregister_device_queued(self.as_raw()) };
    }

    /// Unregisters the device and waits until it is. Others may do so at the same time.
    pub fn unregister(self, _sleep: &MaySleep) {
        let raw = self.as_raw();
        core::mem::forget(self);
        // SAFETY: By the type invariants; C takes over the reference.
        unsafe { bindings::ib_unregister_device_and_put(raw) };
    }
}

impl<P> Drop for DeviceRef<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}

/// Unregisters all devices of the driver `P`, and waits until all that were being unregistered
/// are: what a module must do before it goes. New ones must not be made any more.
pub fn unregister_driver<P: Provider>(_sleep: &MaySleep) {
    // SAFETY: Devices of the driver have `dealloc_driver`.
    unsafe { bindings::ib_unregister_driver(P::DRIVER_ID) };
}

/// What `modify_device` changes: `struct ib_device_modify`.
pub struct DeviceModify<'a> {
    /// The system image's GUID, in the order of the processor.
    pub sys_image_guid: Option<u64>,
    /// The node's description.
    pub node_desc: Option<&'a [u8; 64]>,
    /// Whether anything else is asked for.
    pub other: bool,
}

impl<'a> DeviceModify<'a> {
    pub(crate) fn from_raw(raw: &'a bindings::ib_device_modify, mask: i32) -> Self {
        const GUID: u32 = bindings::IB_DEVICE_MODIFY_SYS_IMAGE_GUID;
        const DESC: u32 = bindings::IB_DEVICE_MODIFY_NODE_DESC;
        let mask = mask as u32;
        Self {
            sys_image_guid: (mask & GUID != 0).then_some(raw.sys_image_guid),
            node_desc: (mask & DESC != 0).then_some(&raw.node_desc),
            other: mask & !(GUID | DESC) != 0,
        }
    }
}
