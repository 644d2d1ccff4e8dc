// SPDX-License-Identifier: GPL-2.0

//! The inbox of requests that kernel consumers have posted.

use super::slots::Slots;
use kernel::prelude::*;

/// Posted requests that the engine has not taken yet.
pub(crate) struct Inbox<T> {
    slots: Slots<T>,
    first: u32,
    next: u32,
}

impl<T> Inbox<T> {
    /// Creates an inbox for `capacity` requests with `data_len` bytes of data each. Sleeps.
    pub(crate) fn new(capacity: u32, data_len: usize) -> Result<Self> {
        Ok(Self {
            slots: Slots::new(capacity, data_len, GFP_KERNEL_ACCOUNT)?,
            first: 0,
            next: 0,
        })
    }

    fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// Adds the request that `make` writes in place. The caller has checked that there is room.
    #[inline]
    pub(crate) fn push(
        &mut self,
        make: impl FnOnce(&mut Option<T>, &mut [u8]) -> Result,
    ) -> Result {
        let (place, data) = self.slots.place_mut(self.next).ok_or(ENOMEM)?;
        make(place, data)?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// Drops all requests.
    pub(crate) fn clear(&mut self) {
        while !self.is_empty() {
            drop(self.slots.take(self.first));
            self.first = self.first.wrapping_add(1);
        }
    }

    /// Takes the oldest request and copies its data to the start of `data`.
    pub(crate) fn take(&mut self, data: &mut [u8]) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let request = self.slots.take(self.first);
        let from = self.slots.data(self.first);
        if let Some(to) = data.get_mut(..from.len()) {
            to.copy_from_slice(from);
        }
        self.first = self.first.wrapping_add(1);
        request
    }

    /// Moves all requests to `other`, which has room for as many with as much data.
    pub(crate) fn move_all(&mut self, other: &mut Self) {
        while self.move_to(&mut other.slots, other.next) {
            other.next = other.next.wrapping_add(1);
        }
    }

    /// Moves the oldest request to slot `index` of `to`; returns whether there was one.
    pub(crate) fn move_to(&mut self, to: &mut Slots<T>, index: u32) -> bool {
        match self.take(to.data_mut(index)) {
            Some(request) => {
                to.put(index, request);
                true
            }
            None => false,
        }
    }
}
