// SPDX-License-Identifier: GPL-2.0

//! Lists of socket buffers: `struct sk_buff` of `include/linux/skbuff.h`, linked by `next`.

use super::skb::SkBuff;
use crate::bindings;
use core::ptr::{null_mut, NonNull};

/// A list of packets, first in, first out. It has no lock. Dropping it frees its packets.
///
/// # Invariants
///
/// The list owns `len` packets: `first`, then the `next` of each, up to `last`, whose `next` is null. `first` is null in an
/// empty list.
pub struct SkbList {
    first: *mut bindings::sk_buff,
    last: *mut bindings::sk_buff,
    len: usize,
}

// SAFETY: Packets may be used and freed on any thread.
unsafe impl Send for SkbList {}

/// The link of a packet to the next one.
///
/// # Safety
///
/// The packet is valid.
#[inline]
unsafe fn link(packet: *mut bindings::sk_buff) -> *mut *mut bindings::sk_buff {
    // SAFETY: By the safety requirements.
    unsafe { &raw mut (*packet).__bindgen_anon_1.__bindgen_anon_1.next }
}

impl SkbList {
    /// An empty list.
    pub const fn new() -> Self {
        // INVARIANT: There are no packets.
        Self {
            first: null_mut(),
            last: null_mut(),
            len: 0,
        }
    }

    /// The number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no packets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Adds a packet at the end.
    #[inline]
    pub fn push_back(&mut self, packet: SkBuff) {
        let packet = packet.into_raw();
        // SAFETY: The list takes over the packet; by the type invariants the last packet, if any, is valid.
        unsafe {
            *link(packet) = null_mut();
            if self.first.is_null() {
                self.first = packet;
            } else {
                *link(self.last) = packet;
            }
        }
        // INVARIANT: The packet is the last one.
        self.last = packet;
        self.len = self.len.wrapping_add(1);
    }

    /// Removes the first packet.
    #[inline]
    pub fn pop_front(&mut self) -> Option<SkBuff> {
        let packet = NonNull::new(self.first)?;
        // SAFETY: By the type invariants the list owns the packet, which is valid and has a link.
        unsafe {
            // INVARIANT: `first` is the next packet, or null.
            self.first = *link(packet.as_ptr());
            *link(packet.as_ptr()) = null_mut();
            self.len = self.len.wrapping_sub(1);
            Some(SkBuff::from_raw(packet))
        }
    }
}

impl Default for SkbList {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for SkbList {
    fn drop(&mut self) {
        while let Some(packet) = self.pop_front() {
            drop(packet);
        }
    }
}
