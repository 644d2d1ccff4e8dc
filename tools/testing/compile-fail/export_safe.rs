// SPDX-License-Identifier: GPL-2.0
// error: `if` and `else` have incompatible types

//! An export with the ABI of Rust.

use kernel_ext::{bindings::ib_device, export::export};

/// Puts back a reference.
///
/// # Safety
///
/// None: it does nothing.
#[export]
pub unsafe fn ib_device_put(_device: *mut ib_device) {}
