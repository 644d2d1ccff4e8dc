// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: the objects of each device by kind and ID, for `rdma resource`.
//!
//! An object is listed from its creation until the start of its destruction. While it is being destroyed its ID remains
//! reserved, so that a failed destruction lists it again. Readers of an object hold a reference, and destruction waits
//! until all are dropped.
//!
//! [`track`] has the calls for the verbs.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::tables` | the objects of a device | process context | nothing |
//!
//! C header: `include/rdma/restrack.h`.

use kernel::{
    ffi::c_int,
    prelude::*,
    rbtree::{Entry, RBTreeNodeReservation},
};
use kernel_ext::{
    bindings,
    compat::limit::limit,
    entry::{Const, ErrPtr},
    export::export,
};
use rdma::{
    core::{
        qp::Caller,
        restrack::{EntryKind, EntryRef, Listed, NewEntry, OwnEntry, Owner, UnlistedEntry},
        Device, RestrackEntry,
    },
    MaySleep,
};

pub(crate) mod leaks;
pub(crate) mod state;
pub(crate) mod track;

use crate::private::DeviceExt;
use state::{DeviceState, Slot, Table};

impl Table {
    /// The next unused ID, cyclically.
    fn free_id(&mut self) -> u32 {
        while self.slots.get(&self.next).is_some() {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        id
    }

    /// The first listed object with an ID from this one on; driver details only with `details`.
    fn next(&mut self, from: u32, details: bool) -> Option<EntryRef> {
        let mut cursor = self.slots.cursor_lower_bound_mut(&from);
        while let Some(at) = cursor {
            let slot = at.current().1;
            let shown = details || !slot.detail;
            let found = slot.listed.as_ref().filter(|_| shown);
            if let Some(found) = found.and_then(Listed::get) {
                return Some(found);
            }
            cursor = at.move_next();
        }
        None
    }
}

impl DeviceState {
    fn with<R>(&self, kind: u32, f: impl FnOnce(&mut Table) -> R) -> Option<R> {
        let mut tables = self.tables.lock();
        tables.get_mut(kind as usize).map(f)
    }
}

/// Number of objects of a kind; driver objects are counted only with `details`.
pub(crate) fn count(device: &Device, kind: u32, details: bool) -> u32 {
    let counted = device.core().restrack.with(kind, |table| {
        let slots = table.slots.values();
        let shown = slots.filter(|slot| slot.listed.is_some() && (details || !slot.detail));
        shown.count()
    });
    counted.map_or(0, |counted| counted as u32)
}

/// The object of a kind with an ID.
pub(crate) fn find(device: &Device, kind: u32, id: u32) -> Option<EntryRef> {
    let found = device.core().restrack.with(kind, |table| {
        let slot = table.slots.get(&id)?;
        slot.listed.as_ref()?.get()
    });
    found?
}

/// Iterates over the objects of a kind in ascending order of their IDs. Objects that are added or removed meanwhile may
/// be missed.
pub(crate) fn list(
    device: &Device,
    kind: u32,
    from: u32,
    details: bool,
) -> impl Iterator<Item = EntryRef> + '_ {
    let mut from = Some(from);
    core::iter::from_fn(move || {
        let start = from?;
        let state = &device.core().restrack;
        let found = state.with(kind, |table| table.next(start, details))??;
        from = found.id().checked_add(1);
        Some(found)
    })
}

/// Calls `f` with the table of an entry. `None` if the object has no device.
fn with_table<R>(entry: &RestrackEntry, f: impl FnOnce(&mut Table) -> R) -> Option<R> {
    let owner = entry.owner()?;
    owner.device()?.core().restrack.with(entry.kind(), f)
}

/// The fixed ID of an object, if its kind has one, and whether it is a driver detail.
fn fixed_id(entry: &RestrackEntry) -> (Option<u32>, bool) {
    match entry.owner() {
        Some(Owner::Qp(qp)) => {
            let special = matches!(qp.kind(), bindings::IB_QPT_SMI | bindings::IB_QPT_GSI);
            // Each port has a queue pair 0 and 1.
            let port = if special { qp.port() << 24 } else { 0 };
            let detail = qp.kind() >= bindings::IB_QPT_DRIVER;
            (Some(qp.qp_num() | port), detail)
        }
        Some(Owner::Counter(counter)) => (Some(counter.number()), false),
        _ => (None, false),
    }
}

/// Lists an object.
fn insert(entry: OwnEntry<'_>) -> Result {
    let (fixed, detail) = fixed_id(&entry);
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
    let inserted = with_table(&entry, |table| {
        let id = fixed.unwrap_or_else(|| table.free_id());
        let Entry::Vacant(free) = table.slots.entry(id) else {
            return Err(EBUSY);
        };
        entry.set_id(id);
        // SAFETY: An object is removed from the list before it is freed.
        let listed = Some(unsafe { Listed::new(&entry) });
        free.insert(Slot { listed, detail }, node);
        Ok(())
    });
    inserted.unwrap_or(Err(ENODEV))
}

/// Whether an object is listed: it was added, and is not of a kind that is never listed.
fn is_listed(entry: &RestrackEntry) -> bool {
    entry.is_valid() && entry.is_tracked()
}

/// Removes an object from the list; its ID remains reserved.
fn suspend(entry: &RestrackEntry) {
    with_table(entry, |table| {
        if let Some(slot) = table.slots.get_mut(&entry.id()) {
            slot.listed = None;
        }
    });
}

/// Lists a suspended object again.
fn resume(entry: &RestrackEntry) {
    with_table(entry, |table| {
        if let Some(slot) = table.slots.get_mut(&entry.id()) {
            // SAFETY: An object is removed from the list before it is freed.
            slot.listed = Some(unsafe { Listed::new(entry) });
        }
    });
}

/// Removes an object from the list, and frees its ID.
fn remove(entry: &RestrackEntry) {
    let node = with_table(entry, |table| table.slots.remove_node(&entry.id()));
    drop(node);
}

/// Initialises the entry of a kind, `enum rdma_restrack_type`. Any context.
#[export]
fn rdma_restrack_new(res: NewEntry<'_>, kind: EntryKind<'_>) {
    res.begin(kind);
}

/// Sets the owner of an object: the module with this name, or the current process where `caller` is null.
///
/// The name stays valid as long as the object.
#[export]
pub(crate) fn rdma_restrack_set_name(mut res: UnlistedEntry<'_>, caller: Caller) {
    let name = caller.as_ptr();
    if name.is_null() {
        res.set_current_task();
    } else {
        // SAFETY: By the type invariants of `Caller`.
        unsafe { res.set_kernel_name(name) };
    }
}

/// Sets the owner of an object to that of another one.
#[export]
pub(crate) fn rdma_restrack_parent_name(
    mut dst: UnlistedEntry<'_>,
    parent: Const<'_, RestrackEntry>,
) {
    dst.set_owner_of(&parent);
}

/// Lists an object. If that fails, because memory is short or its ID is in use, the object is usable but not listed.
/// Process context.
#[export]
pub(crate) fn rdma_restrack_add(res: OwnEntry<'_>) {
    if res.is_tracked() && insert(res).is_err() {
        return;
    }
    res.set_valid();
}

/// Removes an object from the list, and waits for its readers.
#[export]
pub(crate) fn rdma_restrack_del(res: OwnEntry<'_>, sleep: &MaySleep) {
    if res.is_valid() {
        if res.is_tracked() {
            remove(&res);
        }
        res.drain(sleep);
    }
    res.end();
}

/// Suspends the listing of an object that is about to be destroyed, and waits for its readers.
#[export]
pub(crate) fn rdma_restrack_begin_del(res: OwnEntry<'_>, sleep: &MaySleep) {
    if !res.is_valid() {
        return;
    }
    if res.is_tracked() {
        suspend(&res);
    }
    res.drain(sleep);
}

/// Lists an object again whose destruction has failed.
#[export]
pub(crate) fn rdma_restrack_abort_del(res: OwnEntry<'_>) {
    if !res.is_valid() {
        return;
    }
    res.begin_again();
    if res.is_tracked() {
        resume(&res);
    }
}

/// Frees the ID of an object that was destroyed.
#[export]
pub(crate) fn rdma_restrack_commit_del(res: UnlistedEntry<'_>) {
    if is_listed(&res) {
        remove(&res);
    }
    res.end();
}

/// Waits for all readers that may have seen an object before its owner changed it.
#[export]
pub(crate) fn rdma_restrack_sync(res: OwnEntry<'_>, sleep: &MaySleep) {
    if is_listed(&res) {
        rdma_restrack_begin_del(res, sleep);
        rdma_restrack_abort_del(res);
    }
}

/// Takes a reference to an object; returns 0 if it is being destroyed. Any context.
#[export]
fn rdma_restrack_get(res: &RestrackEntry) -> c_int {
    res.try_get().into()
}

/// Drops a reference to an object; returns 1 if it was the last one. Any context.
#[export]
fn rdma_restrack_put(res: EntryRef) -> c_int {
    res.put().into()
}

/// Returns the number of objects of a kind.
#[export]
fn rdma_restrack_count(
    dev: &Device,
    kind: bindings::rdma_restrack_type,
    show_details: bool,
) -> bindings::rdma_restrack_count_t {
    limit(count(dev, kind, show_details))
}

/// Returns a reference to the object of a kind with an ID, or `ENOENT`.
#[export]
fn rdma_restrack_get_byid(
    dev: &Device,
    kind: bindings::rdma_restrack_type,
    id: u32,
) -> ErrPtr<bindings::rdma_restrack_entry> {
    ErrPtr(find(dev, kind, id).map(EntryRef::into_raw).ok_or(ENOENT))
}

#[kernel::prelude::kunit_tests(ib_core_resource_numbers)]
mod tests {
    use super::*;
    use crate::kunit::with_device;
    use rdma::core::restrack::KINDS;

    fn take(table: &mut Table, id: u32) -> Result {
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let slot = Slot {
            listed: None,
            detail: false,
        };
        table.slots.insert(node.into_node(id, slot));
        Ok(())
    }

    #[test]
    fn ids_are_cyclic() -> Result {
        let mut table = Table::new();
        assert_eq!(table.free_id(), 0);
        assert_eq!(table.free_id(), 1);
        table.next = u32::MAX;
        take(&mut table, 0)?;
        take(&mut table, 1)?;
        assert_eq!(table.free_id(), u32::MAX);
        assert_eq!(table.free_id(), 2);
        take(&mut table, 4)?;
        assert_eq!(table.free_id(), 3);
        assert_eq!(table.free_id(), 5);
        Ok(())
    }

    #[test]
    fn invalid_kinds_have_no_objects() -> Result {
        with_device(|device, _, _| {
            assert_eq!(count(device, u32::MAX, true), 0);
            assert!(find(device, KINDS as u32, 0).is_none());
            assert_eq!(list(device, u32::MAX, 0, true).count(), 0);
            Ok(())
        })
    }
}
