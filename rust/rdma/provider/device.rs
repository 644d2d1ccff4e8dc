// SPDX-License-Identifier: GPL-2.0

//! Devices with the driver's data: `struct ib_device`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{any::TypeId, mem::MaybeUninit, ops::Deref, ptr::NonNull};

use kernel::{prelude::*, types::Opaque};
use kernel_ext::compat::pin_init::initialize;
use rdma_bindings::{self as bindings, ib_device};

use crate::{abi::event::DeviceEvent, provider::event::new_event, MaySleep};

/// A device: the core's structure, followed by the driver's data, to which it dereferences.
///
/// # Invariants
///
/// `provider` is the type `P`, in a place that does not depend on `P`. The data is initialised until the core calls
/// `dealloc_driver`; no method runs after that, and no reference outlives it.
#[repr(C)]
pub struct Device<P> {
    base: Opaque<ib_device>,
    provider: TypeId,
    data: MaybeUninit<P>,
}

// SAFETY: The core's structure may be used from any thread, and the bound covers the driver's data.
unsafe impl<P: Send> Send for Device<P> {}
// SAFETY: The core's structure may be used from any thread, and the bound covers the driver's data.
unsafe impl<P: Sync> Sync for Device<P> {}

impl<P> Deref for Device<P> {
    type Target = P;

    #[inline]
    fn deref(&self) -> &P {
        // SAFETY: By the type invariants the data is initialised.
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
    /// Those of `init`. Then the data is not initialised.
    ///
    /// # Safety
    ///
    /// `raw` must be a device that the core has allocated with the size of `Self`, and whose data is not
    /// initialised.
    pub(crate) unsafe fn init_data<E>(
        raw: NonNull<ib_device>,
        init: impl PinInit<P, E>,
    ) -> Result<(), E>
    where
        P: 'static,
    {
        const { assert!(align_of::<Self>() == align_of::<ib_device>()) };
        let this = raw.cast::<Self>().as_ptr();
        // SAFETY: By the safety requirements there is memory for the members after the core's structure, and
        // it is not moved.
        unsafe {
            (&raw mut (*this).provider).write(TypeId::of::<P>());
            initialize((&raw mut (*this).data).cast(), init)
        }
    }

    /// Whether a device is of `P`.
    ///
    /// # Safety
    ///
    /// `raw` is a valid device that [`Self::alloc`] made for `P` or for another type.
    pub(crate) unsafe fn is(raw: NonNull<ib_device>) -> bool
    where
        P: 'static,
    {
        // SAFETY: By the safety requirements the member is initialised; its place does not depend on the type.
        let provider = unsafe { (&raw const (*raw.cast::<Self>().as_ptr()).provider).read() };
        provider == TypeId::of::<P>()
    }

    /// Drops the driver's data.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`]; the driver's data must not be used any more.
    pub(crate) unsafe fn drop_data(raw: *mut ib_device) {
        // SAFETY: By the safety requirements and the type invariants.
        unsafe { (*raw.cast::<Self>()).data.assume_init_drop() };
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_device {
        self.base.get()
    }

    /// Dispatches an asynchronous event of the device or a port to clients. May be called in any context:
    /// the handlers run later, from a work queue.
    pub fn dispatch_event(&self, event: DeviceEvent, port_num: u32) {
        let mut event = new_event(event.as_raw());
        event.device = self.as_raw();
        event.element.port_num = port_num;
        // SAFETY: `event` is a valid event of this device.
        unsafe { bindings::ib_dispatch_event(&event) };
    }

    /// Sets the node description; called by `modify_device`.
    pub fn set_node_desc(&self, desc: &[u8; 64]) {
        // SAFETY: `self` is a valid device; the field is an array of bytes, of which readers take any value. The kernel's memory
        // model allows volatile accesses to be concurrent.
        unsafe {
            let field = (&raw mut (*self.as_raw()).node_desc).cast::<[u8; 64]>();
            field.write_volatile(*desc);
        }
    }

    /// Takes a reference that keeps the device registered; `None` if the device is not registered.
    pub fn try_get(&self) -> Option<DeviceRef<P>> {
        // SAFETY: `self` is a valid device.
        let got = unsafe { bindings::ib_device_try_get(self.as_raw()) };
        got.then(|| DeviceRef(NonNull::from(self)))
    }
}

/// A reference that keeps a device registered. Unregistration waits for it, so it is held for a short time
/// only.
///
/// # Invariants
///
/// The device is registered, and `self` owns one registration reference.
pub struct DeviceRef<P>(NonNull<Device<P>>);

// SAFETY: A device may be used from any thread, as the bound says.
unsafe impl<P: Send + Sync> Send for DeviceRef<P> {}
// SAFETY: A device may be used from any thread, as the bound says.
unsafe impl<P: Send + Sync> Sync for DeviceRef<P> {}

impl<P> Deref for DeviceRef<P> {
    type Target = Device<P>;

    #[inline]
    fn deref(&self) -> &Device<P> {
        // SAFETY: By the type invariants the device is valid.
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

    /// Starts unregistration from a work queue. May be called under locks that unregistration takes, such
    /// as the RTNL. Unregistration waits until the reference is dropped, and
    /// [`unregister_driver`](super::register::unregister_driver) waits for unregistration.
    pub fn unregister_queued(&self) {
        // SAFETY: By the type invariants; the device has `dealloc_driver`.
        unsafe { bindings::ib_unregister_device_queued(self.as_raw()) };
    }

    /// Unregisters the device, and waits until it is unregistered. Other threads may do so concurrently.
    pub fn unregister(self, _sleep: &MaySleep) {
        let raw = self.as_raw();
        core::mem::forget(self);
        // SAFETY: By the type invariants `self` owns a reference, which C takes over.
        unsafe { bindings::ib_unregister_device_and_put(raw) };
    }
}

impl<P> Drop for DeviceRef<P> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference.
        unsafe { bindings::ib_device_put(self.as_raw()) };
    }
}

/// The changes of `modify_device`: `struct ib_device_modify`.
pub struct DeviceModify<'a> {
    /// The system image GUID, in CPU byte order.
    pub sys_image_guid: Option<u64>,
    /// The node description.
    pub node_desc: Option<&'a [u8; 64]>,
    /// Whether other attributes are to be changed.
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
