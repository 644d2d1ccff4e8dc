// SPDX-License-Identifier: GPL-2.0
// error: the trait `Route` requires an `unsafe impl` declaration

//! A route that is none.

use kernel_ext::net::route::Route;

/// Nothing.
pub struct Nowhere;

impl Route for Nowhere {
    fn as_raw(&self) -> *mut kernel_ext::bindings::dst_entry {
        core::ptr::null_mut()
    }
}
