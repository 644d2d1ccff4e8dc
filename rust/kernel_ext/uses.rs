// SPDX-License-Identifier: GPL-2.0

//! Counting who uses an object, so that its end can wait for them.
//!
//! Memory is kept by reference counts; this is for what must not happen any more when an object ends, as calls of its
//! client.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::prelude::*;

use crate::{context::MaySleep, sync::Completion};

/// Who uses an object, and whether it goes.
#[pin_data]
pub struct Uses {
    /// The users, and one more until the object goes.
    count: AtomicUsize,
    #[pin]
    gone: Completion,
}

impl Uses {
    /// An initialiser: nobody uses the object yet.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: AtomicUsize::new(1),
            gone <- Completion::new(),
        })
    }

    /// One more user, unless the object has gone. Each is to be taken back by [`Self::put`]. Any context.
    #[must_use]
    pub fn get(&self) -> bool {
        let more = |count: usize| match count {
            0 => None,
            count => count.checked_add(1),
        };
        self.count
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, more)
            .is_ok()
    }

    /// One user less. Any context.
    pub fn put(&self) {
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.gone.complete_all();
        }
    }

    /// The object goes: waits until nobody uses it. Once, and not by a user.
    pub fn end(&self, sleep: &MaySleep) {
        self.put();
        self.gone.wait(sleep);
    }
}
