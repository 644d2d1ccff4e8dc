// SPDX-License-Identifier: GPL-2.0

//! Vectors in statics. Statics are never dropped, so an ordinary vector would leak its memory when the module is
//! unloaded.

use core::ops::{Deref, DerefMut};
use kernel::{alloc::Flags, prelude::*};

/// A vector that frees its memory when it becomes empty.
///
/// ```
/// # use kernel::prelude::*;
/// # use kernel_ext::{static_lock::static_lock, static_vec::StaticVec};
/// static_lock! {
///     static NUMBERS: Mutex<StaticVec<u32>> = StaticVec::new();
/// }
///
/// fn add(number: u32) -> Result {
///     NUMBERS.lock().push(number, GFP_KERNEL)
/// }
/// ```
pub struct StaticVec<T>(KVec<T>);

impl<T> StaticVec<T> {
    /// An empty vector.
    pub const fn new() -> Self {
        Self(KVec::new())
    }

    /// Appends a value.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn push(&mut self, value: T, flags: Flags) -> Result {
        self.reserve(flags)?.push(value);
        Ok(())
    }

    /// Reserves capacity for one more value.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn reserve(&mut self, flags: Flags) -> Result<ReservedSlot<'_, T>> {
        self.0.reserve(1, flags)?;
        Ok(ReservedSlot(self))
    }

    /// Moves the value at `index`, if there is one, to the front, and shifts those before it.
    pub fn move_to_front(&mut self, index: usize) -> Option<&mut T> {
        let value = self.0.remove(index).ok()?;
        // The removal has freed capacity for one value.
        let _ = self.0.insert_within_capacity(0, value);
        self.0.first_mut()
    }

    /// Removes the value at `index`, if there is one, and shifts those after it.
    pub fn remove(&mut self, index: usize) -> Option<T> {
        let value = self.0.remove(index).ok();
        self.free_if_empty();
        value
    }

    /// Drops all values for which `keep` returns false.
    pub fn retain(&mut self, keep: impl FnMut(&mut T) -> bool) {
        self.0.retain(keep);
        self.free_if_empty();
    }

    fn free_if_empty(&mut self) {
        if self.0.is_empty() {
            self.0 = KVec::new();
        }
    }
}

/// Reserved capacity for one value. If it is not used, it is released.
pub struct ReservedSlot<'a, T>(&'a mut StaticVec<T>);

impl<T> ReservedSlot<'_, T> {
    /// Appends a value. Any context.
    pub fn push(self, value: T) {
        // Capacity was reserved.
        let _ = self.0 .0.push_within_capacity(value);
    }

    /// Inserts a value at `index` and shifts those after it; beyond the end the value is dropped. Any context.
    pub fn insert(self, index: usize, value: T) {
        // Capacity was reserved.
        let _ = self.0 .0.insert_within_capacity(index, value);
    }
}

impl<T> Drop for ReservedSlot<'_, T> {
    fn drop(&mut self) {
        self.0.free_if_empty();
    }
}

impl<T> Default for StaticVec<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for StaticVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for StaticVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}
