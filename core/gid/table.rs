// SPDX-License-Identifier: GPL-2.0

//! GID tables: the core's table of each port.
//!
//! Entries are looked up and referenced in any context. A deleted entry is first removed from the table, so that it is
//! not found any more; existing references stay valid. On a RoCE port its index is not reused before the last reference
//! is dropped, so that an index in an address vector never refers to another GID.
//!
//! The first indices of a RoCE port's table are reserved for default GIDs, one for each GID type.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `GidTable::change` | adding and deleting entries of a port, with calls of the driver's `add_gid` and `del_gid` | process; RTNL may be held | `GidTable::slots`, what drivers take |
//! | `GidTable::slots` | the content of each index | any, interrupts off | nothing |
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{context::MaySleep, error::ENODATA, net::device::NetDevice};
use rdma::{
    core::{
        gid::{self, GidEntry, GidRef, NewGid},
        Device,
    },
    Gid, GidType,
};

use super::state::{GidTable, Slot, Slots};

impl gid::GidTable for GidTable {
    fn left(&self, index: u16) {
        let mut slots = self.slots.lock();
        let index = usize::from(index);
        if let Some(Slot::Leaving) = slots.all().get(index) {
            slots.set(index, Slot::Free);
        }
    }
}

/// Criteria for an entry. `None` matches any.
#[derive(Clone, Copy, Default)]
pub(crate) struct GidFilter<'a> {
    /// The GID.
    pub(crate) gid: Option<Gid>,
    /// The type, `enum ib_gid_type`.
    pub(crate) gid_type: Option<u32>,
    /// The net device.
    pub(crate) ndev: Option<&'a NetDevice>,
    /// Whether its index is reserved for default GIDs.
    pub(crate) default: Option<bool>,
}

impl<'a> GidFilter<'a> {
    /// Matches entries with this GID, type and, if given, net device.
    pub(crate) fn exactly(gid: Gid, gid_type: u32, ndev: Option<&'a NetDevice>) -> Self {
        Self {
            gid: Some(gid),
            gid_type: Some(gid_type),
            ndev,
            default: None,
        }
    }
}

impl GidFilter<'_> {
    fn matches(&self, entry: &GidEntry, default: bool) -> bool {
        self.gid_type
            .is_none_or(|wanted| wanted == entry.gid_type().as_raw())
            && self.gid.is_none_or(|wanted| wanted == entry.gid())
            && self.ndev.is_none_or(|wanted| entry.is_on(wanted))
            && self.default.is_none_or(|wanted| wanted == default)
    }
}

/// A GID to be added or deleted.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    /// The GID.
    pub(crate) gid: Gid,
    /// Its type.
    pub(crate) gid_type: GidType,
    /// Its net device.
    pub(crate) ndev: &'a NetDevice,
    /// Whether it is a default GID. A net device has one of each type.
    pub(crate) default: bool,
}

impl<'a> Change<'a> {
    /// Matches an existing entry for this GID; of a default GID the value does not matter.
    fn same(&self) -> GidFilter<'a> {
        GidFilter {
            gid: (!self.default).then_some(self.gid),
            gid_type: Some(self.gid_type.as_raw()),
            ndev: Some(self.ndev),
            default: self.default.then_some(true),
        }
    }
}

impl GidTable {
    fn is_default(&self, index: usize) -> bool {
        index < self.defaults
    }

    /// Finds the first entry that matches. Any context.
    pub(crate) fn find(&self, wanted: &GidFilter<'_>) -> Option<GidRef> {
        let slots = self.slots.lock();
        let index = self.position(&slots, wanted)?;
        slots.in_use().get(index)?.entry().cloned().map(GidRef::new)
    }

    /// Finds the first entry that `filter` accepts. Any context; `filter` must not drop a reference to an entry.
    pub(crate) fn find_by(&self, mut filter: impl FnMut(&GidEntry) -> bool) -> Option<GidRef> {
        let slots = self.slots.lock();
        let mut entries = slots.in_use().iter().filter_map(Slot::entry);
        entries
            .find(|entry| filter(entry))
            .cloned()
            .map(GidRef::new)
    }

    /// Returns the entry at an index. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid index, `ENODATA` if there is no entry.
    pub(crate) fn at(&self, index: i32) -> Result<GidRef> {
        let slots = self.slots.lock();
        let index = usize::try_from(index).map_err(|_| EINVAL)?;
        let slot = slots.all().get(index).ok_or(EINVAL)?;
        slot.entry().cloned().map(GidRef::new).ok_or(ENODATA)
    }

    /// Calls `f` for each entry, in order, until it fails. Any context; `f` must not drop a reference to an entry.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&GidEntry) -> Result) -> Result {
        let slots = self.slots.lock();
        slots
            .in_use()
            .iter()
            .filter_map(Slot::entry)
            .try_for_each(|entry| f(entry))
    }

    fn position(&self, slots: &Slots, wanted: &GidFilter<'_>) -> Option<usize> {
        let mut slots = slots.in_use().iter().enumerate();
        slots
            .find(|(index, slot)| {
                slot.entry()
                    .is_some_and(|entry| wanted.matches(entry, self.is_default(*index)))
            })
            .map(|(index, _)| index)
    }

    /// A free index for a GID: `None` if the GID is in the table already.
    fn free_index(&self, change: &Change<'_>) -> Result<Option<usize>> {
        let slots = self.slots.lock();
        if self.position(&slots, &change.same()).is_some() {
            return Ok(None);
        }
        let mut slots = slots.all().iter().enumerate();
        slots
            .find(|(index, slot)| {
                matches!(slot, Slot::Free) && self.is_default(*index) == change.default
            })
            .map(|(index, _)| Some(index))
            .ok_or(ENOSPC)
    }

    /// Adds an entry at a free index, with the driver's `add_gid`. Under `change`.
    fn put(self: &Arc<Self>, device: &Device, new: &NewGid<'_>, sleep: &MaySleep) -> Result {
        let entry = GidEntry::new(device, self.clone(), new)?;
        device.driver_add_gid(&entry, sleep)?;
        entry.set_valid(true);
        let mut slots = self.slots.lock();
        slots.set(usize::from(new.index), Slot::Used(entry));
        Ok(())
    }

    /// Deletes the entry at an index, if there is one. Under `change`.
    fn take(&self, device: &Device, index: usize, sleep: &MaySleep) -> bool {
        let Some(entry) = self.unpublish(index) else {
            return false;
        };
        entry.set_valid(false);
        device.driver_del_gid(&entry, sleep);
        entry.take_ndev();
        true
    }

    /// Removes the entry at an index from lookups.
    fn unpublish(&self, index: usize) -> Option<Arc<GidEntry>> {
        let mut slots = self.slots.lock();
        slots.all().get(index)?.entry()?;
        let after = if self.waits {
            Slot::Leaving
        } else {
            Slot::Free
        };
        match slots.set(index, after)? {
            Slot::Used(entry) => Some(entry),
            Slot::Free | Slot::Leaving => None,
        }
    }

    /// Adds a GID of a RoCE port at the first free index for its kind; returns whether it was added.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the zero GID, `ENOSPC` if the table is full, `ENODEV` if it is closed, `ENOMEM`, errors of the
    /// driver.
    pub(crate) fn add(
        self: &Arc<Self>,
        device: &Device,
        port: u32,
        change: &Change<'_>,
        sleep: &MaySleep,
    ) -> Result<bool> {
        if change.gid.is_zero() {
            return Err(EINVAL);
        }
        let open = self.change.lock();
        if !*open {
            return Err(ENODEV);
        }
        let Some(index) = self.free_index(change)? else {
            return Ok(false);
        };
        let new = NewGid {
            gid: change.gid,
            gid_type: change.gid_type,
            port_num: port,
            index: u16::try_from(index).map_err(|_| ENOSPC)?,
            ndev: Some(change.ndev),
        };
        self.put(device, &new, sleep)?;
        Ok(true)
    }

    /// Deletes a GID; returns whether it was in the table.
    pub(crate) fn delete(&self, device: &Device, change: &Change<'_>, sleep: &MaySleep) -> bool {
        let wanted = GidFilter {
            default: Some(change.default),
            ..change.same()
        };
        let _guard = self.change.lock();
        let index = self.position(&self.slots.lock(), &wanted);
        index.is_some_and(|index| self.take(device, index, sleep))
    }

    /// Opens the table for new entries. A new table is open.
    pub(crate) fn open(&self, _sleep: &MaySleep) {
        *self.change.lock() = true;
    }

    /// Deletes all GIDs and closes the table.
    pub(crate) fn close(&self, device: &Device, sleep: &MaySleep) {
        *self.change.lock() = false;
        self.delete_all(device, |_| true, sleep);
    }

    /// Deletes all GIDs for which `is_deleted` is true; returns whether there were any.
    pub(crate) fn delete_all(
        &self,
        device: &Device,
        is_deleted: impl Fn(&GidEntry) -> bool,
        sleep: &MaySleep,
    ) -> bool {
        let _guard = self.change.lock();
        let length = self.slots.lock().in_use().len();
        let mut deleted = false;
        for index in 0..length {
            let found = {
                let slots = self.slots.lock();
                let entry = slots.in_use().get(index).and_then(Slot::entry);
                entry.is_some_and(|entry| is_deleted(entry))
            };
            deleted |= found && self.take(device, index, sleep);
        }
        deleted
    }

    /// Sets an index to the driver's GID, on a port whose driver maintains the table. The zero GID clears the index; an
    /// index beyond the table is ignored.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the index is then empty.
    pub(crate) fn replace(
        self: &Arc<Self>,
        device: &Device,
        new: &NewGid<'_>,
        sleep: &MaySleep,
    ) -> Result {
        let open = self.change.lock();
        self.take(device, usize::from(new.index), sleep);
        let fits = usize::from(new.index) < self.slots.lock().all().len();
        if new.gid.is_zero() || !*open || !fits {
            return Ok(());
        }
        self.put(device, new, sleep)
    }
}

#[kernel::prelude::kunit_tests(ib_core_gid_table)]
mod tests {
    use super::*;
    use crate::kunit::{with_device, GIDS, IB, ROCE};
    use kernel_ext::{bindings as c, net::ns::NetNamespace};

    /// Both versions of RoCE.
    const TYPES: u32 = 1 << c::IB_GID_TYPE_ROCE | 1 << c::IB_GID_TYPE_ROCE_UDP_ENCAP;
    /// Number of indices for GIDs other than default ones.
    const OTHERS: u8 = GIDS as u8 - 2;

    /// A table and a net device for tests.
    struct Fixture<'a> {
        table: Arc<GidTable>,
        device: &'a Device,
        ndev: &'a NetDevice,
        sleep: &'a MaySleep,
    }

    impl Fixture<'_> {
        fn change(&self, gid: u8, gid_type: GidType, default: bool) -> Change<'_> {
            Change {
                gid: gid_of(gid),
                gid_type,
                ndev: self.ndev,
                default,
            }
        }

        fn add(&self, gid: u8, gid_type: GidType, default: bool) -> Result<bool> {
            let change = self.change(gid, gid_type, default);
            self.table.add(self.device, ROCE, &change, self.sleep)
        }

        fn add_address(&self, gid: u8) -> Result<bool> {
            self.add(gid, GidType::RoceV2, false)
        }

        fn delete(&self, gid: u8, gid_type: GidType, default: bool) -> bool {
            let change = self.change(gid, gid_type, default);
            self.table.delete(self.device, &change, self.sleep)
        }

        fn delete_address(&self, gid: u8) -> bool {
            self.delete(gid, GidType::RoceV2, false)
        }

        fn find(&self, gid: u8, gid_type: GidType) -> Option<GidRef> {
            let wanted = GidFilter::exactly(gid_of(gid), gid_type.as_raw(), Some(self.ndev));
            self.table.find(&wanted)
        }

        /// The index of a GID of RoCE version 2.
        fn index_of(&self, gid: u8) -> Option<u16> {
            Some(self.find(gid, GidType::RoceV2)?.index())
        }

        fn count(&self) -> usize {
            (0..i32::from(GIDS))
                .filter(|&index| self.table.at(index).is_ok())
                .count()
        }

        /// Sets an index, as for a driver that maintains the table.
        fn replace(&self, index: u16, gid: Gid) -> Result {
            let new = NewGid {
                gid,
                gid_type: GidType::Ib,
                port_num: IB,
                index,
                ndev: None,
            };
            self.table.replace(self.device, &new, self.sleep)
        }
    }

    fn gid_of(last: u8) -> Gid {
        Gid::from_ipv4([10, 0, 0, last])
    }

    fn with_table(port: u32, types: u32, test: impl FnOnce(&Fixture<'_>) -> Result) -> Result {
        with_device(|device, _, sleep| {
            let ndev = NetDevice::by_name(NetNamespace::init(), c"lo").ok_or(ENODEV)?;
            let table = GidTable::new(device, port, types, sleep)?;
            let tested = test(&Fixture {
                table: table.clone(),
                device,
                ndev: &ndev,
                sleep,
            });
            table.close(device, sleep);
            tested
        })
    }

    fn roce(test: impl FnOnce(&Fixture<'_>) -> Result) -> Result {
        with_table(ROCE, TYPES, test)
    }

    #[test]
    fn the_first_indices_are_for_default_gids() -> Result {
        roce(|table| {
            assert_eq!(table.add_address(1), Ok(true));
            assert_eq!(table.index_of(1), Some(2));
            assert_eq!(table.add(9, GidType::RoceV1, true), Ok(true));
            assert_eq!(table.add(9, GidType::RoceV2, true), Ok(true));
            assert_eq!(
                table.find(9, GidType::RoceV1).map(|entry| entry.index()),
                Some(0)
            );
            assert_eq!(table.index_of(9), Some(1));
            assert_eq!(table.add_address(2), Ok(true));
            assert_eq!(table.index_of(2), Some(3));
            Ok(())
        })
    }

    #[test]
    fn a_net_device_has_one_default_gid_of_each_type() -> Result {
        roce(|table| {
            assert_eq!(table.add(9, GidType::RoceV2, true), Ok(true));
            // Regardless of the GID.
            assert_eq!(table.add(8, GidType::RoceV2, true), Ok(false));
            assert!(table.find(8, GidType::RoceV2).is_none());
            // So is an address that equals the default GID.
            assert_eq!(table.add_address(9), Ok(false));
            assert_eq!(table.count(), 1);
            assert!(!table.delete_address(9));
            assert!(table.delete(7, GidType::RoceV2, true));
            assert_eq!(table.count(), 0);
            Ok(())
        })
    }

    #[test]
    fn lookups_end_behind_the_last_index_in_use() -> Result {
        roce(|table| {
            let end = || table.table.slots.lock().in_use().len();
            assert_eq!(end(), 0);
            for gid in 1..=3 {
                assert_eq!(table.add_address(gid), Ok(true));
            }
            assert_eq!(end(), 5);
            // In the middle.
            assert!(table.delete_address(2));
            assert_eq!(end(), 5);
            assert_eq!(table.index_of(3), Some(4));
            // At the end, with what was free before it.
            assert!(table.delete_address(3));
            assert_eq!(end(), 3);
            assert!(table.delete_address(1));
            assert_eq!(end(), 0);
            Ok(())
        })
    }

    #[test]
    fn none_is_there_twice() -> Result {
        roce(|table| {
            assert_eq!(table.add_address(1), Ok(true));
            assert_eq!(table.add_address(1), Ok(false));
            assert_eq!(table.count(), 1);
            assert!(table.delete_address(1));
            assert!(!table.delete_address(1));
            assert_eq!(table.count(), 0);
            Ok(())
        })
    }

    #[test]
    fn the_versions_of_a_gid_are_two_entries() -> Result {
        roce(|table| {
            assert_eq!(table.add(1, GidType::RoceV1, false), Ok(true));
            assert_eq!(table.add(1, GidType::RoceV2, false), Ok(true));
            assert_eq!(
                table.find(1, GidType::RoceV1).map(|entry| entry.index()),
                Some(2)
            );
            assert_eq!(table.index_of(1), Some(3));
            assert!(table.delete(1, GidType::RoceV1, false));
            assert!(table.find(1, GidType::RoceV1).is_none());
            assert_eq!(table.index_of(1), Some(3));
            Ok(())
        })
    }

    #[test]
    fn a_full_table_takes_no_address_in_place_of_a_default_gid() -> Result {
        roce(|table| {
            for gid in 1..=OTHERS {
                assert_eq!(table.add_address(gid), Ok(true));
            }
            assert_eq!(table.add_address(100), Err(ENOSPC));
            assert_eq!(table.add_address(1), Ok(false));
            assert_eq!(table.add(100, GidType::RoceV1, true), Ok(true));
            assert_eq!(table.add(100, GidType::RoceV2, true), Ok(true));
            assert_eq!(table.count(), usize::from(GIDS));
            assert!(table.delete_address(4));
            assert_eq!(table.add_address(101), Ok(true));
            assert_eq!(table.index_of(101), Some(5));
            Ok(())
        })
    }

    #[test]
    fn the_others_keep_their_indices() -> Result {
        roce(|table| {
            for gid in 1..=5 {
                assert_eq!(table.add_address(gid), Ok(true));
            }
            assert!(table.delete_address(2));
            assert!(table.delete_address(4));
            for gid in [1, 3, 5] {
                assert_eq!(table.index_of(gid), Some(u16::from(gid) + 1));
            }
            assert_eq!(table.add_address(6), Ok(true));
            assert_eq!(table.index_of(6), Some(3));
            Ok(())
        })
    }

    #[test]
    fn an_index_waits_for_references_to_what_was_there() -> Result {
        roce(|table| {
            assert_eq!(table.add_address(1), Ok(true));
            let held = table.find(1, GidType::RoceV2).ok_or(ENOENT)?;
            let again = held.clone();
            assert!(table.delete_address(1));
            assert!(!held.is_valid());
            assert!(table.find(1, GidType::RoceV2).is_none());
            assert_eq!(table.table.at(2).err(), Some(ENODATA));
            assert_eq!(table.add_address(2), Ok(true));
            assert_eq!(table.index_of(2), Some(3));
            // The same GID again makes another entry.
            assert_eq!(table.add_address(1), Ok(true));
            assert_eq!(table.index_of(1), Some(4));
            drop(held);
            assert_eq!(table.add_address(3), Ok(true));
            assert_eq!(table.index_of(3), Some(5));
            assert!(again.gid() == gid_of(1) && again.index() == 2);
            drop(again);
            assert_eq!(table.add_address(4), Ok(true));
            assert_eq!(table.index_of(4), Some(2));
            Ok(())
        })
    }

    #[test]
    fn what_was_deleted_has_no_net_device() -> Result {
        roce(|table| {
            assert_eq!(table.add_address(1), Ok(true));
            let held = table.find(1, GidType::RoceV2).ok_or(ENOENT)?;
            assert!(held.is_on(table.ndev));
            assert!(table.delete_address(1));
            assert!(!held.is_on(table.ndev));
            assert!(held.ndev(&kernel::sync::rcu::read_lock()).is_none());
            Ok(())
        })
    }

    #[test]
    fn a_closed_table_takes_none() -> Result {
        roce(|table| {
            assert_eq!(table.add_address(1), Ok(true));
            assert_eq!(table.add(9, GidType::RoceV2, true), Ok(true));
            table.table.close(table.device, table.sleep);
            assert_eq!(table.count(), 0);
            assert_eq!(table.add_address(2), Err(ENODEV));
            table.table.open(table.sleep);
            assert_eq!(table.add_address(2), Ok(true));
            assert_eq!(table.index_of(2), Some(2));
            Ok(())
        })
    }

    #[test]
    fn no_index_out_of_the_table() -> Result {
        roce(|table| {
            for index in [-1, i32::from(GIDS), i32::MIN, i32::MAX] {
                assert_eq!(table.table.at(index).err(), Some(EINVAL));
            }
            assert_eq!(table.table.at(0).err(), Some(ENODATA));
            assert_eq!(table.table.at(i32::from(GIDS) - 1).err(), Some(ENODATA));
            Ok(())
        })
    }

    #[test]
    fn the_zero_gid_is_none() -> Result {
        roce(|table| {
            let zero = Change {
                gid: Gid::default(),
                ..table.change(0, GidType::RoceV2, false)
            };
            let added = table.table.add(table.device, ROCE, &zero, table.sleep);
            assert_eq!(added, Err(EINVAL));
            Ok(())
        })
    }

    #[test]
    fn what_is_wanted_may_be_anything() -> Result {
        roce(|table| {
            assert_eq!(table.add(9, GidType::RoceV2, true), Ok(true));
            assert_eq!(table.add(1, GidType::RoceV1, false), Ok(true));
            let find = |wanted: GidFilter<'_>| table.table.find(&wanted).map(|entry| entry.index());
            let any = GidFilter::default();
            assert_eq!(find(any), Some(0));
            let default = Some(false);
            assert_eq!(find(GidFilter { default, ..any }), Some(2));
            let gid = Some(gid_of(1));
            assert_eq!(find(GidFilter { gid, ..any }), Some(2));
            let default = Some(true);
            assert_eq!(
                find(GidFilter {
                    gid,
                    default,
                    ..any
                }),
                None
            );
            let gid_type = Some(GidType::RoceV1.as_raw());
            assert_eq!(
                find(GidFilter {
                    gid_type,
                    default,
                    ..any
                }),
                None
            );
            Ok(())
        })
    }

    #[test]
    fn a_driver_says_what_is_at_an_index() -> Result {
        with_table(IB, 0, |table| {
            table.replace(3, gid_of(1))?;
            let held = table.table.at(3)?;
            // An index of a hardware table is reused at once.
            table.replace(3, gid_of(2))?;
            assert!(table.table.at(3)?.gid() == gid_of(2));
            assert!(held.gid() == gid_of(1) && !held.is_valid());
            drop(held);
            assert!(table.table.at(3)?.gid() == gid_of(2));
            table.replace(3, Gid::default())?;
            assert_eq!(table.table.at(3).err(), Some(ENODATA));
            table.replace(GIDS, gid_of(3))?;
            table.replace(u16::MAX, gid_of(3))?;
            assert_eq!(table.count(), 0);
            Ok(())
        })
    }
}
