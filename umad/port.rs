// SPDX-License-Identifier: GPL-2.0

//! A port of a device as files see it: it is there until the device goes.
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Port::device` | whether the device is there | process context | nothing |

use kernel::{
    prelude::*,
    sync::{new_mutex, Mutex},
};
use rdma::{client::attachment::Attached, MaySleep};

/// A port.
#[pin_data]
pub(crate) struct Port {
    number: u32,
    #[pin]
    device: Mutex<Option<Attached>>,
}

impl Port {
    /// An initialiser.
    pub(crate) fn new(device: &Attached, number: u32) -> impl PinInit<Self> {
        let device = device.another();
        pin_init!(Self {
            number,
            device <- new_mutex!(device, "Port::device"),
        })
    }

    /// The number of the port.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The device, whose removal waits for the result; `None` if it is gone.
    pub(crate) fn device(&self) -> Option<Attached> {
        self.device.lock().as_ref()?.another()
    }

    /// The device, for opening a file.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it is gone, `EPERM` if it is in another network namespace than the current process.
    pub(crate) fn enter(&self, sleep: &MaySleep) -> Result<Attached> {
        let device = self.device().ok_or(ENXIO)?;
        match device.is_accessible(sleep) {
            true => Ok(device),
            false => Err(EPERM),
        }
    }

    /// The device goes.
    pub(crate) fn leave(&self) {
        let device = self.device.lock().take();
        drop(device);
    }
}
