// SPDX-License-Identifier: GPL-2.0

//! The device that a client's objects are created on: `struct ib_device`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, Arc},
};
use rdma_bindings::{self as bindings, ib_device, workqueue_struct};

use super::retry::RetryList;
use crate::{
    abi::{
        gid::{owned_gid_attr, GidAttr},
        port::PortAttr,
    },
    core::device::{DeviceName, Registered},
    DeviceAttr, MaySleep,
};

/// A value that may be dropped in any context: it owns nothing whose destruction waits.
///
/// # Safety
///
/// Dropping a value of the type neither sleeps nor waits. The compiler derives the auto trait from the parts of a type; trait
/// objects have to name it.
pub unsafe auto trait DropsAnywhere {}

/// Ties an object to its device: `'d` stands for the device, and neither grows nor shrinks.
pub(super) type Brand<'d> = PhantomData<fn(&'d ()) -> &'d ()>;

/// The state of a client's handles and objects of a device.
pub(super) struct Scope {
    pub(super) device: Registered,
    /// The owner of the objects, for resource tracking.
    pub(super) owner: &'static CStr,
    /// The work queue that destroys objects. It is valid until the client is unregistered.
    pub(super) queue: NonNull<workqueue_struct>,
    /// The number of handles.
    pub(super) handles: AtomicUsize,
    /// The objects that the driver has failed to destroy.
    pub(super) retry: RetryList,
}

// SAFETY: Work queues may be used from any thread, and the other members are `Send` and `Sync`.
unsafe impl Send for Scope {}
// SAFETY: Work queues may be used from any thread, and the other members are `Send` and `Sync`.
unsafe impl Sync for Scope {}

/// A handle of a device. The client and its objects have handles from [`Client::add`](super::Client::add) on until
/// [`Client::remove`](super::Client::remove) has returned. The device is registered all that time.
pub struct Device<'d> {
    pub(super) scope: Arc<Scope>,
    pub(super) _brand: Brand<'d>,
}

impl Clone for Device<'_> {
    fn clone(&self) -> Self {
        self.scope.handles.fetch_add(1, Ordering::Relaxed);
        Self {
            scope: self.scope.clone(),
            _brand: PhantomData,
        }
    }
}

impl Drop for Device<'_> {
    fn drop(&mut self) {
        self.scope.handles.fetch_sub(1, Ordering::Release);
    }
}

impl Device<'_> {
    /// The C structure, which is valid as long as `self`, for a connection manager.
    pub fn as_raw(&self) -> *mut ib_device {
        self.scope.device.as_raw()
    }

    /// The owner of the objects: the client's name.
    pub fn owner(&self) -> &'static CStr {
        self.scope.owner
    }

    /// The current name of the device, for messages.
    pub fn name(&self) -> DeviceName {
        self.scope.device.name()
    }

    /// The node GUID, big endian.
    pub fn node_guid(&self) -> [u8; 8] {
        self.scope.device.node_guid()
    }

    /// The port numbers.
    pub fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.scope.device.ports()
    }

    /// Whether the protocol of a port is RoCE.
    pub fn is_roce(&self, port: u32) -> bool {
        self.scope.device.is_roce(port)
    }

    /// The attributes of the device: `struct ib_device_attr`.
    pub fn attrs(&self) -> &DeviceAttr {
        self.scope.device.attrs()
    }

    /// The number of completion vectors.
    pub fn completion_vectors(&self) -> u32 {
        // SAFETY: The member is constant from registration on.
        let count = unsafe { (*self.as_raw()).num_comp_vectors };
        u32::try_from(count).unwrap_or(0)
    }

    /// Queries the attributes of a port.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port, and those of the driver.
    pub fn query_port(&self, port: u32, sleep: &MaySleep) -> Result<PortAttr> {
        sleep.check();
        let mut attr: PortAttr = pin_init::zeroed();
        // SAFETY: The device is registered; `attr` is valid for writes.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port, &mut attr) })?;
        Ok(attr)
    }

    /// An entry of a port's GID table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown port or index, `ENODATA` for an entry that is not valid.
    pub fn gid(&self, port: u32, index: u16) -> Result<ARef<GidAttr>> {
        // SAFETY: The device is registered, and the function returns a reference or an errno.
        unsafe {
            let raw = bindings::rdma_get_gid_attr(self.as_raw(), port, index.into());
            owned_gid_attr(raw)
        }
    }
}

/// Converts the result of a C function that creates an object.
pub(super) fn made<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(kernel::error::from_err_ptr(raw)?).ok_or(ENOMEM)
}
