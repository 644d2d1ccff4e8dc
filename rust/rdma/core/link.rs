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
    /// A kind of links, as its driver describes it.
    pub struct LinkKind(bindings::rdma_link_ops);
}

/// A kind of links that is registered.
///
/// # Invariants
///
/// The kind stays as long as there is such a handle.
pub struct LinkKindRef(NonNull<LinkKind>);

// SAFETY: Kinds of links may be used from any thread.
unsafe impl Send for LinkKindRef {}
// SAFETY: As above.
unsafe impl Sync for LinkKindRef {}

impl LinkKindRef {
    /// A handle.
    ///
    /// # Safety
    ///
    /// The handle is dropped before the kind goes.
    pub unsafe fn new(kind: &LinkKind) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::from(kind))
    }

    fn raw(&self) -> *mut bindings::rdma_link_ops {
        self.0.as_ptr().cast()
    }

    /// The name of the kind.
    pub fn name(&self) -> &CStr {
        // SAFETY: By the type invariants; the name is constant.
        unsafe { CStr::from_char_ptr((*self.raw()).type_) }
    }

    /// Whether it is a handle of this kind.
    pub fn is(&self, kind: &LinkKind) -> bool {
        self.0 == NonNull::from(kind)
    }

    /// Has the driver make a link.
    pub fn make(&self, name: &CStr, ndev: &NetDevice, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants.
        let call = unsafe { (*self.raw()).newlink }.ok_or(EINVAL)?;
        // SAFETY: The name is a string, the net device is there, and so is the driver.
        to_result(unsafe { call(name.as_char_ptr(), ndev.as_raw().cast()) })
    }
}

/// Loads the module of a kind of links: `rdma-link-NAME`.
pub fn request_module(kind: &CStr, _sleep: &MaySleep) {
    // SAFETY: The name is a string. Whether there is a module shows in whether there is a kind afterwards.
    unsafe { bindings::__request_module(true, c"rdma-link-%s".as_char_ptr(), kind.as_char_ptr()) };
}

impl Registered {
    /// Tells the driver that a user deletes the link that the device is, before it is unregistered.
    ///
    /// # Errors
    ///
    /// What the driver says: then it has given up the reference itself, as the method's contract is.
    pub fn dellink(self, _sleep: &MaySleep) -> Result<Self> {
        // SAFETY: A device's kind stays as long as the device is registered.
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
