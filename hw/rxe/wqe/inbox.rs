// SPDX-License-Identifier: GPL-2.0

//! Requests that kernel consumers posted, in the order in which they did.

use super::Slots;
use kernel::prelude::*;

/// What kernel consumers posted and no engine has taken yet.
pub(crate) struct Inbox<T> {
    slots: Slots<T>,
    first: u32,
    next: u32,
}

impl<T> Inbox<T> {
    /// Makes an inbox for `capacity` requests with `data_len` bytes of data each. Sleeps.
    pub(crate) fn new(capacity: u32, data_len: usize) -> Result<Self> {
        Ok(Self {
            slots: Slots::new(capacity, data_len)?,
            first: 0,
            next: 0,
        })
    }

    fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// How many requests wait.
    pub(crate) fn len(&self) -> u32 {
        self.next.wrapping_sub(self.first)
    }

    /// Adds what `make` makes, in its place and with room for its data. The caller has counted that there is room.
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

    /// Takes the oldest request and copies its data to the front of `data`.
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

    /// Moves all requests to `other`, which has room for them and for as much data of each.
    pub(crate) fn move_all(&mut self, other: &mut Self) {
        while self.move_to(&mut other.slots, other.next) {
            other.next = other.next.wrapping_add(1);
        }
    }

    /// Moves the oldest request to place `index` of other slots; says whether there was one.
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
