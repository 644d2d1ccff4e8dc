// SPDX-License-Identifier: GPL-2.0

//! Counting the users of an object, so that its teardown can wait for them.
//!
//! Memory is managed by reference counts; this is for actions that must not happen after the teardown, such as calls of
//! a client.

use core::{
    ops::Deref,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use kernel::{prelude::*, sync::Arc};

use crate::{context::MaySleep, sync::Completion};

/// Number of users of an object, and whether it is being torn down.
#[pin_data]
pub struct Uses {
    /// The users, and one more until the teardown.
    count: AtomicUsize,
    is_ending: AtomicBool,
    #[pin]
    gone: Completion,
}

impl Uses {
    /// An initialiser without users.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: AtomicUsize::new(1),
            is_ending: AtomicBool::new(false),
            gone <- Completion::new(),
        })
    }

    /// Adds a user, unless the object is being torn down.
    fn get(&self) -> bool {
        let more = |count: usize| match count {
            0 => None,
            count => count.checked_add(1),
        };
        self.count
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, more)
            .is_ok()
    }

    /// Removes a user that was added, or the one that the object has until its teardown.
    fn put(&self) {
        if self.count.fetch_sub(1, Ordering::Release) == 1 {
            self.gone.complete_all();
        }
    }

    /// Takes a use, unless the object is being torn down: the teardown waits until the result is dropped. Any context.
    pub fn enter(&self) -> Option<Entered<'_>> {
        // INVARIANT: The use was just counted.
        self.get().then(|| Entered(self))
    }

    /// Starts the teardown, and waits until there are no users. A user that calls it waits for itself.
    pub fn end(&self, sleep: &MaySleep) {
        if !self.is_ending.swap(true, Ordering::Relaxed) {
            self.put();
        }
        self.gone.wait(sleep);
    }
}

/// A use of an object that is borrowed.
///
/// # Invariants
///
/// The object counts this use.
pub struct Entered<'a>(&'a Uses);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.put();
    }
}

/// An object that counts its users.
///
/// # Safety
///
/// [`Self::uses`] always returns the same count, which is the object's own.
pub unsafe trait Used {
    /// The count.
    fn uses(&self) -> &Uses;
}

/// A use of an object, with a reference to it: the teardown waits until this is dropped.
///
/// # Invariants
///
/// The object counts this use.
pub struct Use<T: Used>(Arc<T>);

impl<T: Used> Use<T> {
    /// Takes a use, unless the object is being torn down. Any context.
    pub fn new(object: &Arc<T>) -> Option<Self> {
        // INVARIANT: The use was just counted.
        object.uses().get().then(|| Self(object.clone()))
    }
}

impl<T: Used> Deref for Use<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}

impl<T: Used> Drop for Use<T> {
    fn drop(&mut self) {
        self.0.uses().put();
    }
}
