// SPDX-License-Identifier: GPL-2.0

//! C lists that the core shares with headers and consumers, and the spin locks that protect them.
//!
//! C headers: `include/linux/list.h`, `include/linux/spinlock.h`.

use kernel::ffi::c_ulong;
use rdma_bindings::{self as bindings, list_head, spinlock_t};

/// Initialises an empty list.
///
/// # Safety
///
/// `head` is valid for writes, and no other thread accesses it.
pub unsafe fn init(head: *mut list_head) {
    // SAFETY: By the safety requirements.
    unsafe {
        (*head).next = head;
        (*head).prev = head;
    }
}

/// The first entry.
///
/// # Safety
///
/// `head` is a valid list, and its lock is held.
pub unsafe fn first(head: *mut list_head) -> Option<*mut list_head> {
    // SAFETY: By the safety requirements.
    unsafe { after(head, head) }
}

/// The entry after another one, or after the head.
///
/// # Safety
///
/// `head` is a valid list, `entry` is its head or in it, and its lock is held.
pub unsafe fn after(head: *mut list_head, entry: *mut list_head) -> Option<*mut list_head> {
    // SAFETY: By the safety requirements.
    let next = unsafe { (*entry).next };
    (next != head).then_some(next)
}

/// Inserts an entry after another one, or after the head, as the first.
///
/// # Safety
///
/// `at` is a list's head or in the list, `entry` is in no list, and the list's lock is held.
pub unsafe fn insert_after(at: *mut list_head, entry: *mut list_head) {
    // SAFETY: By the safety requirements.
    unsafe {
        let next = (*at).next;
        (*entry).prev = at;
        (*entry).next = next;
        (*next).prev = entry;
        (*at).next = entry;
    }
}

/// Appends an entry.
///
/// # Safety
///
/// `head` is a list, `entry` is in no list, and the list's lock is held.
pub unsafe fn append(head: *mut list_head, entry: *mut list_head) {
    // SAFETY: By the safety requirements; the last entry is in front of the head.
    unsafe { insert_after((*head).prev, entry) };
}

/// Removes an entry.
///
/// # Safety
///
/// `entry` is in a list whose lock is held.
pub unsafe fn remove(entry: *mut list_head) {
    // SAFETY: By the safety requirements.
    unsafe {
        let (prev, next) = ((*entry).prev, (*entry).next);
        (*prev).next = next;
        (*next).prev = prev;
        init(entry);
    }
}

/// A C spin lock that is held with interrupts disabled.
///
/// # Invariants
///
/// This context holds the lock; `flags` are from taking it.
pub struct Locked {
    lock: *mut spinlock_t,
    flags: c_ulong,
}

impl Locked {
    /// Takes a lock.
    ///
    /// # Safety
    ///
    /// `lock` is initialised, is not held by this context, and is valid as long as the result.
    pub unsafe fn take(lock: *mut spinlock_t) -> Self {
        // INVARIANT: The lock was just taken.
        Self {
            lock,
            // SAFETY: By the safety requirements.
            flags: unsafe { bindings::spin_lock_irqsave(lock) },
        }
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::spin_unlock_irqrestore(self.lock, self.flags) };
    }
}
