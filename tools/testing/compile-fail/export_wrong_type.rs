// SPDX-License-Identifier: GPL-2.0
// error: `if` and `else` have incompatible types

//! An export whose signature is not the header's.

use kernel_ext::export::export;

/// Puts back a reference.
///
/// # Safety
///
/// None: it does nothing.
#[export]
pub unsafe extern "C" fn ib_device_put(_device: *mut u8) {}
