// SPDX-License-Identifier: GPL-2.0
// error: cannot find value `ib_no_such_function` in crate `
// error: kernel_ext::export::header`

//! An export that no header declares.

use kernel_ext::export::export;

/// Does nothing.
///
/// # Safety
///
/// None.
#[export]
pub unsafe extern "C" fn ib_no_such_function() {}
