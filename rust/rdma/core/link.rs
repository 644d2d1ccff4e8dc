// SPDX-License-Identifier: GPL-2.0

//! Types of links for `rdma link add`: `struct rdma_link_ops`.
//!
//! C header: `include/rdma/rdma_netlink.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use kernel_ext::{entry::view_of, net::device::NetDevice};
use rdma_bindings as bindings;

use super::device::Registered;
use crate::MaySleep;

view_of! {
    /// A link type, as its driver describes it: `struct rdma_link_ops`.
    pub struct LinkKind(bindings::rdma_link_ops);
}

/// A handle of a registered link type.
///
/// # Invariants
///
/// The link type is valid as long as the handle.
pub struct LinkKindRef(NonNull<LinkKind>);

// SAFETY: Link types are constant, and may be used from any thread.
unsafe impl Send for LinkKindRef {}
// SAFETY: Link types are constant, and may be used from any thread.
unsafe impl Sync for LinkKindRef {}

impl LinkKindRef {
    /// Creates a handle.
    ///
    /// # Safety
    ///
    /// The handle is dropped before the link type becomes invalid.
    pub unsafe fn new(kind: &LinkKind) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(kind))
    }

    fn raw(&self) -> *mut bindings::rdma_link_ops {
        self.0.as_ptr().cast()
    }

    /// The name of the link type.
    pub fn name(&self) -> &CStr {
        // SAFETY: By the type invariants; the name is constant.
        unsafe { CStr::from_char_ptr((*self.raw()).type_) }
    }

    /// Whether it is a handle of this link type.
    pub fn is(&self, kind: &LinkKind) -> bool {
        self.0 == NonNull::from(kind)
    }

    /// Lets the driver create a link.
    pub fn make(&self, name: &CStr, ndev: &NetDevice, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the link type is valid.
        let call = unsafe { (*self.raw()).newlink }.ok_or(EINVAL)?;
        // SAFETY: The name is a string and the net device is valid; by the type invariants so is the
        // driver's function.
        to_result(unsafe { call(name.as_char_ptr(), ndev.as_raw().cast()) })
    }
}

/// Loads the module of a link type: `rdma-link-NAME`.
pub fn request_module(kind: &CStr, _sleep: &MaySleep) {
    // SAFETY: The name is a NUL-terminated string. The result is ignored: a lookup of the link type
    // follows.
    unsafe { bindings::__request_module(true, c"rdma-link-%s".as_char_ptr(), kind.as_char_ptr()) };
}

impl Registered {
    /// Calls the driver's `dellink` before the device of a link is unregistered, when a user deletes the
    /// link.
    ///
    /// # Errors
    ///
    /// Those of the driver, which by the method's contract has then given up the reference itself.
    pub fn dellink(self, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: The link type is valid as long as the device is registered.
        let call = unsafe { self.link_ops().as_ref() }.and_then(|ops| ops.dellink);
        let Some(call) = call else {
            return Ok(self);
        };
        // SAFETY: The device is registered.
        match to_result(unsafe { call(self.as_raw()) }) {
            Ok(()) => Ok(self),
            Err(error) => {
                core::mem::forget(self);
                Err(error)
            }
        }
    }
}
