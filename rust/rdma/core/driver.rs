// SPDX-License-Identifier: GPL-2.0

//! Calls of the core into a driver: the methods of `struct ib_device_ops`, for a driver in any language.
//!
//! Each is a safe method on a view. Where a driver lacks a method, the call returns `None`, or the error that the
//! header promises. There is one file per area.
//!
//! The other side, for drivers in Rust, is [`crate::provider`].
//!
//! C header: `include/rdma/ib_verbs.h`.

/// Reads a method of a device; `None` if the driver lacks it.
macro_rules! op {
    ($device:expr, $name:ident) => {
        // SAFETY: `$device` is a valid device, and its methods are constant from registration on.
        unsafe { (*$device.as_raw()).ops.$name }
    };
}

#[cfg(has_comp_cntr)]
pub mod comp_cntr;
#[cfg(not(has_comp_cntr))]
#[path = "driver/no_comp_cntr.rs"]
pub mod comp_cntr;
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
