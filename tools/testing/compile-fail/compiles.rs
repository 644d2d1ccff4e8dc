// SPDX-License-Identifier: GPL-2.0

//! What is right compiles: an export that the headers declare, and sleeping with a token.

use kernel_ext::{bindings::ib_device, context::MaySleep, export::export, sync::rcu};

/// Waits for readers.
pub fn wait(may_sleep: &MaySleep) {
    rcu::synchronize(may_sleep);
}

/// Puts back a reference.
///
/// # Safety
///
/// None: it does nothing.
#[export(GPL, ns = "EXAMPLE")]
pub unsafe extern "C" fn ib_device_put(_device: *mut ib_device) {}
