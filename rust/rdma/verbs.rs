// SPDX-License-Identifier: GPL-2.0

//! The verbs, for users of RDMA in the kernel: [clients](crate::client).
//!
//! In [`Client::add`](crate::client::Client::add), make a [`Device`] of the device, and what is needed of it: a [`Pd`], a
//! [`Cq`], a [`Qp`]; register for its [events](event). Post [work](work) to the QP: each request owns its memory, and comes
//! back to its handler when it is completed.
//!
//! Objects own what they need: a QP its PD and its CQs, all of them a reference that keeps the device registered. So nothing
//! is used after it is gone. What a client does not drop when it is told that the device goes makes that wait.
//!
//! Creating and changing objects may sleep: that takes a [`MaySleep`](crate::MaySleep). Dropping them does not ask for one, but
//! must be in process context too, and not in a handler of theirs. Requests are posted in any context, by
//! [`QpRef`](qp::QpRef).
//!
//! All of this speaks the C contract, so it works on any `ib_core`.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub mod cq;
pub mod event;
pub mod pd;
pub mod qp;
pub mod work;

use core::ptr::NonNull;

use kernel::{prelude::*, sync::aref::ARef};
use rdma_bindings::{self as bindings, ib_device};

use crate::{
    gid::{owned_gid_attr, GidAttr},
    view::{self, Registered},
};

pub use cq::Cq;
pub use pd::Pd;
pub use qp::Qp;

/// A device, as a client has it: it stays registered as long as there is one of these.
pub struct Device {
    handle: Registered,
    /// Whose objects of the device are.
    owner: &'static CStr,
}

impl Clone for Device {
    fn clone(&self) -> Self {
        Self {
            handle: self.handle.again(),
            owner: self.owner,
        }
    }
}

impl Device {
    /// A handle of a device. `owner` is shown as who has its objects: the client's name.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a device that is not registered any more.
    pub fn new(device: &view::Device, owner: &'static CStr) -> Result<Self> {
        let handle = device.try_get().ok_or(ENODEV)?;
        Ok(Self { handle, owner })
    }

    fn as_raw(&self) -> *mut ib_device {
        self.handle.as_raw()
    }

    /// The device's name at this moment, for messages.
    pub fn name(&self) -> &CStr {
        self.handle.name()
    }

    /// The GUID of the node.
    pub fn node_guid(&self) -> [u8; 8] {
        self.handle.node_guid()
    }

    /// The numbers of the ports.
    pub fn ports(&self) -> core::ops::RangeInclusive<u32> {
        self.handle.ports()
    }

    /// Whether a port is of RoCE.
    pub fn is_roce(&self, port: u32) -> bool {
        self.handle.is_roce(port)
    }

    /// How many completion vectors there are.
    pub fn completion_vectors(&self) -> u32 {
        // SAFETY: The member is constant once the device is registered.
        let count = unsafe { (*self.as_raw()).num_comp_vectors };
        u32::try_from(count).unwrap_or(0)
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
fn made<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(kernel::error::from_err_ptr(raw)?).ok_or(ENOMEM)
}
