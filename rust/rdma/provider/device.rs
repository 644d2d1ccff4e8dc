// SPDX-License-Identifier: GPL-2.0

//! Devices with the driver's data behind `struct ib_device`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{mem::MaybeUninit, ops::Deref, ptr, ptr::NonNull};

use kernel::{prelude::*, types::Opaque};
use rdma_bindings::{self as bindings, ib_device};

use crate::{abi::event::DeviceEvent, provider::event::new_event, MaySleep};

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

    /// Initialises the driver's data.
    ///
    /// # Errors
    ///
    /// As for `init`; there is no data then.
    ///
    /// # Safety
    ///
    /// `raw` must be a device that the core has allocated at the size of `Self`, without data yet.
    pub(crate) unsafe fn init_data<E>(
        raw: NonNull<ib_device>,
        init: impl PinInit<P, E>,
    ) -> Result<(), E> {
        const { assert!(align_of::<Self>() == align_of::<ib_device>()) };
        let this = raw.cast::<Self>().as_ptr();
        // SAFETY: By the safety requirements the data is behind the core's structure; it will not be moved.
        unsafe { init.__pinned_init((&raw mut (*this).data).cast()) }
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

impl<P> DeviceRef<P> {
    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// `raw` must be a device of `P`, and the caller gives up a reference that keeps it registered.
    pub(crate) unsafe fn from_raw(raw: NonNull<ib_device>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw.cast())
    }

    /// Starts unregistration from a work queue. May be called under locks that unregistration
    /// takes, the RTNL for one. Drop the reference soon: unregistration waits for it, and
    /// [`unregister_driver`](super::register::unregister_driver) waits for that.
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
