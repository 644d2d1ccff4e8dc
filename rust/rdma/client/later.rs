// SPDX-License-Identifier: GPL-2.0

//! Objects of a device that a work item ends: `struct work_struct`.
//!
//! They are what other modules make for a client, such as the identifiers of a connection manager. The last reference may be dropped in any
//! context.
//!
//! C header: `include/linux/workqueue.h`.

use core::ops::Deref;

use kernel::prelude::*;

use super::{
    deferred::{Deferred, Object, UninitObject},
    Device,
};
use crate::MaySleep;

/// An object that a work item ends, and drops after that.
pub trait End: Send + Sync {
    /// Ends the object. There are no references to it any more.
    fn end(&self, sleep: &MaySleep);
}

/// An object with a handle of its device, for which the unregistration of the client waits.
struct Held<'d, T> {
    value: T,
    _device: Device<'d>,
}

impl<T: End> Object for Held<'_, T> {
    const WHAT: &'static str = "an object";

    fn destroy(&self, sleep: &MaySleep) -> Result {
        self.value.end(sleep);
        Ok(())
    }
}

/// Memory for an object that is about to be made, so that nothing fails after that.
pub struct Reserved<'d, T: End>(UninitObject<Held<'d, T>>);

impl<'d, T: End> Reserved<'d, T> {
    /// Allocates the memory.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(UninitObject::new(GFP_KERNEL)?))
    }

    /// Moves the object there. It is ended before the device is removed from the client.
    pub fn fill(self, device: &Device<'d>, value: T) -> Later<'d, T> {
        let held = Held {
            value,
            _device: device.clone(),
        };
        Later(self.0.deferred(device, held))
    }
}

/// A counted reference to an object. After the last one is dropped, in any context, a work item of the client ends the object.
pub struct Later<'d, T: End>(Deferred<Held<'d, T>>);

impl<T: End> Clone for Later<'_, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: End> Deref for Later<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}
