// SPDX-License-Identifier: GPL-2.0
// error: `if` and `else` have incompatible types

//! A C entry point with an argument that the header does not have.

use kernel_ext::{bindings::ib_device, entry::view_of, export::export};

view_of! {
    /// A device.
    pub struct Device(ib_device);
}

/// Puts back a reference.
#[export]
fn ib_device_put(device: &Device, _count: u32) {
    let _ = device.as_raw();
}
