// SPDX-License-Identifier: GPL-2.0
// error: what C passes is valid until the function returns

//! An argument of a C entry point that is said to stay after the call.

use kernel_ext::{bindings::ib_device, entry::view_of, export::export};

view_of! {
    /// A device.
    pub struct Device(ib_device);
}

/// Puts back a reference.
#[export]
fn ib_device_put(device: &'static Device) {
    let _ = device.as_raw();
}
