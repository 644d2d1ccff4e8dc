// SPDX-License-Identifier: GPL-2.0

//! Counting the users of an object, so that its teardown can wait for them.
//!
//! Memory is managed by reference counts; this is for actions that must not happen after the teardown, such as calls of
//! a client.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::prelude::*;

use crate::{context::MaySleep, sync::Completion};

/// Number of users of an object, and whether it is being torn down.
#[pin_data]
pub struct Uses {
    /// The users, and one more until the teardown.
    count: AtomicUsize,
    #[pin]
    gone: Completion,
}

impl Uses {
    /// An initialiser without users.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: AtomicUsize::new(1),
            gone <- Completion::new(),
        })
    }

    /// Adds a user, unless the object is being torn down. Each is removed by [`Self::put`]. Any context.
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

    /// Removes a user. Any context.
    pub fn put(&self) {
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.gone.complete_all();
        }
    }

    /// Starts the teardown, and waits until there are no users. Called once, not by a user.
    pub fn end(&self, sleep: &MaySleep) {
        self.put();
        self.gone.wait(sleep);
    }
}
