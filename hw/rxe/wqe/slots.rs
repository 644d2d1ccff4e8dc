// SPDX-License-Identifier: GPL-2.0

//! Slots for the requests of a queue.

use kernel::alloc::Flags;
use kernel::prelude::*;
use kernel_ext::zeroed::zeroed;

/// Slots for the requests of a queue, each with room for its list or inline data.
///
/// A request is identified by an index that increases and wraps; its slot is free when it is taken out.
pub(crate) struct Slots<T> {
    requests: KVVec<Option<T>>,
    data: KVVec<u8>,
    data_len: usize,
    mask: u32,
}

impl<T> Slots<T> {
    /// Creates at least `count` slots with `data_len` bytes of data each; none for 0. The context is that of `flags`.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the sizes overflow, `ENOMEM`.
    pub(crate) fn new(count: u32, data_len: usize, flags: Flags) -> Result<Self> {
        let count = match count {
            0 => 0,
            some => some.checked_next_power_of_two().ok_or(EINVAL)?,
        };
        let bytes = data_len.checked_mul(count as usize).ok_or(EINVAL)?;
        let mut requests = KVVec::with_capacity(count as usize, flags)?;
        for _ in 0..count {
            requests.push(None, flags)?;
        }
        let data = zeroed(bytes, flags)?;
        Ok(Self {
            requests,
            data,
            data_len,
            mask: count.wrapping_sub(1),
        })
    }

    /// Number of slots.
    pub(crate) fn capacity(&self) -> u32 {
        self.mask.wrapping_add(1)
    }

    fn place(&self, index: u32) -> usize {
        (index & self.mask) as usize
    }

    /// Range of the data of request `index`. [`Self::new`] has checked that it does not overflow.
    fn room(&self, index: u32) -> core::ops::Range<usize> {
        let from = self.place(index).wrapping_mul(self.data_len);
        from..from.wrapping_add(self.data_len)
    }

    /// Request `index`.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.requests.get(self.place(index))?.as_ref()
    }

    /// Request `index`, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let place = self.place(index);
        self.requests.get_mut(place)?.as_mut()
    }

    /// The data of request `index`.
    #[inline]
    pub(crate) fn data(&self, index: u32) -> &[u8] {
        self.data.get(self.room(index)).unwrap_or(&[])
    }

    /// The data of request `index`, to be written.
    #[inline]
    pub(crate) fn data_mut(&mut self, index: u32) -> &mut [u8] {
        let room = self.room(index);
        self.data.get_mut(room).unwrap_or(&mut [])
    }

    /// The slot of request `index`, and its data.
    #[inline]
    pub(crate) fn place_mut(&mut self, index: u32) -> Option<(&mut Option<T>, &mut [u8])> {
        let (place, room) = (self.place(index), self.room(index));
        Some((self.requests.get_mut(place)?, self.data.get_mut(room)?))
    }

    /// Moves request `index` with its data from other slots, which have as much data for each.
    #[inline]
    pub(crate) fn move_from(&mut self, other: &mut Self, index: u32) {
        let (place, room) = (self.place(index), self.room(index));
        let data = self.data.get_mut(room).unwrap_or(&mut []);
        for (to, from) in data.iter_mut().zip(other.data(index)) {
            *to = *from;
        }
        if let Some(slot) = self.requests.get_mut(place) {
            *slot = other.take(index);
        }
    }

    /// Stores request `index`.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, request: T) {
        let place = self.place(index);
        if let Some(slot) = self.requests.get_mut(place) {
            *slot = Some(request);
        }
    }

    /// Takes request `index` out.
    #[inline]
    pub(crate) fn take(&mut self, index: u32) -> Option<T> {
        let place = self.place(index);
        self.requests.get_mut(place)?.take()
    }
}
