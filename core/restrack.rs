// SPDX-License-Identifier: GPL-2.0

//! Resource tracking: the objects of each device by kind and number, which `rdma resource` shows.
//!
//! An object is listed from when it is made until it begins to go. While it is being destroyed its number stays taken, so that
//! it is listed again under it if it lives on. Whoever looks at an object has a counted reference, and its owner waits
//! for the end of all such.
//!
//! [`track`] is what the verbs say of an object, from its making to its end.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `DeviceState::tables` | the lists of a device | process context | nothing |

use kernel::{
    ffi::{c_char, c_int},
    prelude::*,
    rbtree::RBTreeNodeReservation,
};
use kernel_ext::{
    bindings,
    door::{Const, ErrPtr},
    export::export,
};
use rdma::{
    view::{
        restrack::{EntryRef, Listed, OwnEntry, Owner},
        Device, RestrackEntry,
    },
    MaySleep,
};

pub(crate) mod state;
pub(crate) mod track;

use crate::private::DeviceExt;
use state::{DeviceState, Slot, Table};

impl Table {
    /// A number that no object has: the next one, going round.
    fn free_id(&mut self) -> u32 {
        while self.slots.get(&self.next).is_some() {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = id.wrapping_add(1);
        id
    }

    /// The first object from this number on that is shown.
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

/// How many objects of a kind a device has; those that only their driver knows about are counted with `details`.
pub(crate) fn count(device: &Device, kind: u32, details: bool) -> u32 {
    let counted = device.core().restrack.with(kind, |table| {
        let slots = table.slots.values();
        let shown = slots.filter(|slot| slot.listed.is_some() && (details || !slot.detail));
        shown.count()
    });
    counted.map_or(0, |counted| counted as u32)
}

/// The object of a kind with this number.
pub(crate) fn find(device: &Device, kind: u32, id: u32) -> Option<EntryRef> {
    let found = device.core().restrack.with(kind, |table| {
        let slot = table.slots.get(&id)?;
        slot.listed.as_ref()?.get()
    });
    found?
}

/// The objects of a kind by ascending number, from one on. Those that come and go meanwhile may be met or not.
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

/// Does something with the list that an entry is for. `None` if there is none: the object has no device.
fn with_table<R>(entry: &RestrackEntry, f: impl FnOnce(&mut Table) -> R) -> Option<R> {
    let owner = entry.owner()?;
    owner.device()?.core().restrack.with(entry.kind(), f)
}

/// Which number an object must have, if any, and whether it is a matter of its driver's.
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

/// Lists an entry.
fn insert(entry: OwnEntry<'_>) -> Result {
    let (fixed, detail) = fixed_id(&entry);
    let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
    let inserted = with_table(&entry, |table| {
        let id = fixed.unwrap_or_else(|| table.free_id());
        if table.slots.get(&id).is_some() {
            return Err(EBUSY);
        }
        entry.set_id(id);
        // SAFETY: An object is taken out of the list before it goes.
        let listed = Some(unsafe { Listed::new(&entry) });
        table
            .slots
            .insert(node.into_node(id, Slot { listed, detail }));
        Ok(())
    });
    inserted.unwrap_or(Err(ENODEV))
}

/// Whether an entry is in a list: it was added, and is not one that is never listed.
fn is_listed(entry: &RestrackEntry) -> bool {
    entry.is_valid() && entry.is_tracked()
}

/// Takes an entry out of its list; its number stays taken.
fn suspend(entry: &RestrackEntry) {
    with_table(entry, |table| {
        if let Some(slot) = table.slots.get_mut(&entry.id()) {
            slot.listed = None;
        }
    });
}

/// Lists an entry again under its number.
fn resume(entry: &RestrackEntry) {
    with_table(entry, |table| {
        if let Some(slot) = table.slots.get_mut(&entry.id()) {
            // SAFETY: An object is taken out of the list before it goes.
            slot.listed = Some(unsafe { Listed::new(entry) });
        }
    });
}

/// Takes an entry out of its list, and gives back its number.
fn remove(entry: &RestrackEntry) {
    let node = with_table(entry, |table| table.slots.remove_node(&entry.id()));
    drop(node);
}

/// Makes a new entry of a kind, `enum rdma_restrack_type`. Any context.
#[export]
pub(crate) fn rdma_restrack_new(res: OwnEntry<'_>, kind: bindings::rdma_restrack_type) {
    res.begin(kind);
}

/// Says whom an object is for: the module of this name, or the present process where `caller` is null.
///
/// The name stays as long as the object.
#[export]
pub(crate) fn rdma_restrack_set_name(res: OwnEntry<'_>, caller: *const c_char) {
    if caller.is_null() {
        res.set_current_task();
    } else {
        // SAFETY: The name is a constant of the module that has the object made.
        unsafe { res.set_kernel_name(caller) };
    }
}

/// Says that an object is for whom another one is.
#[export]
pub(crate) fn rdma_restrack_parent_name(dst: OwnEntry<'_>, parent: Const<'_, RestrackEntry>) {
    dst.set_owner_of(&parent);
}

/// Lists an object. One that cannot be listed, for want of memory or because its number is taken, is still used. Process
/// context.
#[export]
pub(crate) fn rdma_restrack_add(res: OwnEntry<'_>) {
    if res.is_tracked() && insert(res).is_err() {
        return;
    }
    res.set_valid();
}

/// An object goes: it is not listed any more. Waits until nobody looks at it.
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

/// An object is about to be destroyed: it is not listed meanwhile. Waits until nobody looks at it.
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

/// The object was not destroyed: it is listed again.
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

/// The object was destroyed: its number is free.
#[export]
pub(crate) fn rdma_restrack_commit_del(res: OwnEntry<'_>) {
    if is_listed(&res) {
        remove(&res);
    }
    res.end();
}

/// Waits until nobody looks at an object as it was before: its owner has changed it.
#[export]
pub(crate) fn rdma_restrack_sync(res: OwnEntry<'_>, sleep: &MaySleep) {
    if is_listed(&res) {
        rdma_restrack_begin_del(res, sleep);
        rdma_restrack_abort_del(res);
    }
}

/// Takes a reference to an object; returns 0 where it is about to go. Any context.
#[export]
fn rdma_restrack_get(res: &RestrackEntry) -> c_int {
    res.try_get().into()
}

/// Gives up a reference to an object; returns 1 where it was the last one. Any context.
#[export]
fn rdma_restrack_put(res: EntryRef) -> c_int {
    res.put().into()
}

/// Returns how many objects of a kind a device has.
#[export]
fn rdma_restrack_count(
    dev: &Device,
    kind: bindings::rdma_restrack_type,
    show_details: bool,
) -> c_int {
    count(dev, kind, show_details)
        .try_into()
        .unwrap_or(c_int::MAX)
}

/// Returns the object of a kind with this number, referenced, or `ENOENT`.
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
    use rdma::view::restrack::KINDS;

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
    fn numbers_go_round() -> Result {
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
    fn no_kind_that_there_is_not() -> Result {
        with_device(|device, _, _| {
            assert_eq!(count(device, u32::MAX, true), 0);
            assert!(find(device, KINDS as u32, 0).is_none());
            assert_eq!(list(device, u32::MAX, 0, true).count(), 0);
            Ok(())
        })
    }
}
