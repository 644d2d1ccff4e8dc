// SPDX-License-Identifier: GPL-2.0

//! Calls of the core into a driver: the methods of `struct ib_device_ops`, for a driver in any language.
//!
//! Each is a safe method on a view. Where a driver has left a method out, the call says `None`, or the error that the
//! header promises. One file an area.
//!
//! Drivers in Rust are on the other side: [`crate::provider`].
//!
//! C header: `include/rdma/ib_verbs.h`.

/// A method of a device, if the driver has it.
macro_rules! op {
    ($device:expr, $name:ident) => {
        // SAFETY: The device is there, and its methods are constant from registration on.
        unsafe { (*$device.as_raw()).ops.$name }
    };
}

pub mod counter;
pub mod data;
pub mod device;
pub mod frmr;
pub mod gid;
pub mod netdev;
pub mod objects;
pub mod restrack;
pub mod stats;
pub mod user;
pub mod user_objects;
