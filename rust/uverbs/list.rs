// SPDX-License-Identifier: GPL-2.0

//! The list of a file's objects, newest first: an object comes before those that it uses.
//!
//! Lock: `uobjects_lock` of the file, with interrupts off, inside of `hw_destroy_rwsem`.
//!
//! C header: `include/rdma/uverbs_types.h`.

use core::ptr::NonNull;

use kernel::{ffi::c_ulong, sync::aref::ARef};
use rdma::core::{command::UverbsFile, Uobject};
use rdma_bindings::{self as bindings, list_head};

/// The list of a file's objects, locked.
///
/// # Invariants
///
/// The lock is held. The list owns a reference to each of its objects.
struct List<'a> {
    file: &'a UverbsFile,
    flags: c_ulong,
}

impl<'a> List<'a> {
    fn lock(file: &'a UverbsFile) -> Self {
        // SAFETY: The lock is valid as long as the file.
        let flags = unsafe { bindings::spin_lock_irqsave(&raw mut (*file.as_raw()).uobjects_lock) };
        // INVARIANT: The lock was just taken.
        Self { file, flags }
    }

    fn head(&self) -> *mut list_head {
        // SAFETY: The list is valid as long as the file.
        unsafe { &raw mut (*self.file.as_raw()).uobjects }
    }

    /// The object whose member `link` is; `None` for the head.
    fn object(&self, link: *mut list_head) -> Option<ARef<Uobject>> {
        if link == self.head() {
            return None;
        }
        let offset = core::mem::offset_of!(bindings::ib_uobject, list);
        let object = link.wrapping_byte_sub(offset).cast::<Uobject>();
        // SAFETY: The elements of the list are members of objects, which are valid as long as they are
        // listed.
        Some(unsafe { object.as_ref() }?.hold())
    }
}

impl Drop for List<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the lock is held.
        unsafe {
            bindings::spin_unlock_irqrestore(
                &raw mut (*self.file.as_raw()).uobjects_lock,
                self.flags,
            )
        };
    }
}

fn link(object: &Uobject) -> *mut list_head {
    // SAFETY: The member is valid as long as the object.
    unsafe { &raw mut (*object.as_raw()).list }
}

/// Adds an object with a reference, unless it is in the list.
pub fn add(object: ARef<Uobject>) {
    let list = List::lock(object.file());
    if object.is_listed() {
        return;
    }
    let (head, link) = (list.head(), link(&object));
    // SAFETY: The list is locked, and the object is in none.
    // INVARIANT: The list takes over the reference.
    unsafe {
        let first = (*head).next;
        (*link).next = first;
        (*link).prev = head;
        (*first).prev = link;
        (*head).next = link;
    }
    drop(list);
    core::mem::forget(object);
}

/// Removes an object, and returns the list's reference, if it was there. The context of a file may be destroyed when the list is
/// empty, so [`Exclusive::end`](crate::life::Exclusive::end) alone removes an object, once it is destroyed.
pub(crate) fn remove(object: &Uobject) -> Option<ARef<Uobject>> {
    let _list = List::lock(object.file());
    if !object.is_listed() {
        return None;
    }
    let link = link(object);
    // SAFETY: The list is locked, and the object is in it, with a reference that the list owns.
    unsafe {
        let (next, prev) = ((*link).next, (*link).prev);
        (*prev).next = next;
        (*next).prev = prev;
        (*link).next = link;
        (*link).prev = link;
        Some(ARef::from_raw(NonNull::from(object)))
    }
}

/// The newest object of a file.
pub fn first(file: &UverbsFile) -> Option<ARef<Uobject>> {
    let list = List::lock(file);
    // SAFETY: The list is locked.
    let first = unsafe { (*list.head()).next };
    list.object(first)
}

/// The object that was added before another one; `None` if there is none, or if that one is not in the list.
pub fn next(object: &Uobject) -> Option<ARef<Uobject>> {
    let list = List::lock(object.file());
    if !object.is_listed() {
        return None;
    }
    // SAFETY: The list is locked, and the object is in it.
    let next = unsafe { (*link(object)).next };
    list.object(next)
}

/// Whether a file has no objects.
pub fn is_empty(file: &UverbsFile) -> bool {
    first(file).is_none()
}
