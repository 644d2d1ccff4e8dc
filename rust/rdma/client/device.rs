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
/// That is so. The compiler works it out for each type from what the type consists of; trait objects have to name it.
pub unsafe auto trait DropsAnywhere {}

/// Ties an object to its device: `'d` stands for the device, and neither grows nor shrinks.
pub(super) type Brand<'d> = PhantomData<fn(&'d ()) -> &'d ()>;

/// What a client has of a device is counted here.
pub(super) struct Scope {
    pub(super) device: Registered,
    /// Whose objects of the device are.
    pub(super) owner: &'static CStr,
    /// What is destroyed later is destroyed here. The queue goes when the client does.
    pub(super) queue: NonNull<workqueue_struct>,
    /// How many handles there are.
    pub(super) handles: AtomicUsize,
    /// What the driver has not destroyed.
    pub(super) retry: RetryList,
}

// SAFETY: Work queues may be used from any thread.
unsafe impl Send for Scope {}
// SAFETY: As above.
unsafe impl Sync for Scope {}

/// A device, as a client has it, and what the client makes of it too: from [`Client::add`](super::Client::add) on until [`Client::remove`](super::Client::remove) has
/// returned. It is registered all that time.
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
    /// The C structure, which is there as long as `self`: for a connection manager.
    pub fn as_raw(&self) -> *mut ib_device {
        self.scope.device.as_raw()
    }

    /// Whose objects of the device are: the client's name.
    pub fn owner(&self) -> &'static CStr {
        self.scope.owner
    }

    /// The device's name at this moment, for messages.
    pub fn name(&self) -> DeviceName {
        self.scope.device.name()
    }

    /// The GUID of the node, in the order of the wire.
    pub fn node_guid(&self) -> [u8; 8] {
        self.scope.device.node_guid()
    }

    /// The numbers of the ports.
    pub fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.scope.device.ports()
    }

    /// Whether a port is of RoCE.
    pub fn is_roce(&self, port: u32) -> bool {
        self.scope.device.is_roce(port)
    }

    /// What the device can: `struct ib_device_attr`.
    pub fn attrs(&self) -> &DeviceAttr {
        self.scope.device.attrs()
    }

    /// How many completion vectors there are.
    pub fn completion_vectors(&self) -> u32 {
        // SAFETY: The member is constant once the device is registered.
        let count = unsafe { (*self.as_raw()).num_comp_vectors };
        u32::try_from(count).unwrap_or(0)
    }

    /// What a port is like at this moment.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port that there is not, and what the driver answers.
    pub fn query_port(&self, port: u32, sleep: &MaySleep) -> Result<PortAttr> {
        sleep.check();
        let mut attr: PortAttr = pin_init::zeroed();
        // SAFETY: The device is registered; there is room for the answer.
        to_result(unsafe { bindings::ib_query_port(self.as_raw(), port, &mut attr) })?;
        Ok(attr)
    }

    /// An entry of a port's GID table. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a port or an index that there is not, `ENODATA` for an entry that is not valid.
    pub fn gid(&self, port: u32, index: u16) -> Result<ARef<GidAttr>> {
        // SAFETY: The device is registered.
        owned_gid_attr(unsafe { bindings::rdma_get_gid_attr(self.as_raw(), port, index.into()) })
    }
}

/// The address of an object of C's that was just made.
pub(super) fn made<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(kernel::error::from_err_ptr(raw)?).ok_or(ENOMEM)
}
