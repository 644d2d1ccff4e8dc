// SPDX-License-Identifier: GPL-2.0

//! Exports of safe functions, whose C entry points are generated.

use kernel::error::Result;
use kernel_ext::{
    bindings::{ib_client, ib_device},
    context::MaySleep,
    entry::view_of,
    export::export,
};

view_of! {
    /// A device.
    pub struct Device(ib_device);
}

view_of! {
    /// A client.
    pub struct Client(ib_client);
}

/// Puts back a reference.
#[export]
fn ib_device_put(device: &Device) {
    let _ = device.as_raw();
}

/// Registers a client.
#[export]
fn ib_register_client(client: &Client, sleep: &MaySleep) -> Result {
    let _ = client.as_raw();
    sleep.check();
    Ok(())
}
