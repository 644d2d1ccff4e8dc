// SPDX-License-Identifier: GPL-2.0

//! Cached attributes of a port, for use in any context: P_Key table, LMC, state and subnet prefix.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `PortCache` | the attributes of a port | any, interrupts off | nothing |
//!
//! Reference: InfiniBand Architecture Specification, volume 1, 10.9 (P_Keys).
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::prelude::*;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

/// The full membership bit of a P_Key.
///
/// Reference: InfiniBand Architecture Specification, volume 1, 10.9.1.1.
const FULL_MEMBER: u16 = 0x8000;

/// The cached attributes of a port.
#[derive(Default)]
pub(crate) struct Known {
    /// The P_Key table; `None` before it is first read.
    pkeys: Option<KVec<u16>>,
    /// The LMC.
    pub(crate) lmc: u8,
    /// `enum ib_port_state`.
    pub(crate) state: u32,
    /// The subnet prefix, in host byte order.
    pub(crate) subnet_prefix: u64,
}

/// Attributes of a port as read from the driver.
pub(crate) struct PortAttrs {
    /// The P_Key table, if it was read.
    pub(crate) pkeys: Option<KVec<u16>>,
    /// The LMC.
    pub(crate) lmc: u8,
    /// `enum ib_port_state`.
    pub(crate) state: u32,
    /// The subnet prefix, in host byte order.
    pub(crate) subnet_prefix: u64,
}

/// Finds a P_Key in a table, regardless of the membership bit. Full membership is preferred.
fn find(pkeys: &[u16], wanted: u16) -> Option<usize> {
    let same = |pkey: &u16| (pkey ^ wanted) & !FULL_MEMBER == 0;
    let full = |pkey: &u16| same(pkey) && pkey & FULL_MEMBER != 0;
    // The last of several limited members, as in the C core.
    pkeys
        .iter()
        .position(full)
        .or_else(|| pkeys.iter().rposition(same))
}

impl Known {
    /// An entry of the P_Key table.
    pub(crate) fn pkey(&self, index: i32) -> Option<u16> {
        let index = usize::try_from(index).ok()?;
        self.pkeys.as_ref()?.get(index).copied()
    }

    /// The index of a P_Key, regardless of its membership bit; `None` without a table.
    pub(crate) fn find_pkey(&self, pkey: u16) -> Option<Option<u16>> {
        let index = find(self.pkeys.as_ref()?, pkey);
        Some(index.and_then(|index| u16::try_from(index).ok()))
    }
}

/// The cache of a port's attributes.
#[pin_data]
pub(crate) struct PortCache {
    #[pin]
    known: SpinLockIrq<Known>,
}

impl PortCache {
    /// An empty cache.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self { known <- new_spinlock_irq!(Known::default(), "PortCache") })
    }

    /// Updates the cache; returns the previous port state, 0 for none.
    pub(crate) fn update(&self, mut found: PortAttrs) -> u32 {
        let before;
        {
            let mut known = self.known.lock();
            if let Some(pkeys) = &mut found.pkeys {
                // The old table is freed after the lock is dropped.
                let old = known.pkeys.get_or_insert_with(KVec::new);
                core::mem::swap(old, pkeys);
            }
            before = core::mem::replace(&mut known.state, found.state);
            known.lmc = found.lmc;
            known.subnet_prefix = found.subnet_prefix;
        }
        before
    }

    /// Reads the cache. Any context.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Known) -> R) -> R {
        f(&self.known.lock())
    }
}

#[kernel::prelude::kunit_tests(ib_core_pkeys)]
mod tests {
    use super::*;

    #[test]
    fn a_full_member_is_found_before_a_limited_one() {
        let table = [0x7fff, 0x1234, 0xffff, 0x9234, 0x1234];
        assert_eq!(find(&table, 0x7fff), Some(2));
        assert_eq!(find(&table, 0xffff), Some(2));
        assert_eq!(find(&table, 0x1234), Some(3));
    }

    #[test]
    fn of_limited_ones_the_last() {
        let table = [0x1234, 0x7fff, 0x1234];
        assert_eq!(find(&table, 0x9234), Some(2));
        assert_eq!(find(&table, 0x7ffe), None);
        assert_eq!(find(&[], 0x7fff), None);
    }

    #[test]
    fn no_index_out_of_the_table() {
        let known = Known::default();
        assert_eq!(known.pkey(0), None);
        assert_eq!(known.pkey(-1), None);
        assert_eq!(known.pkey(i32::MAX), None);
        assert!(known.find_pkey(0xffff).is_none());
    }

    #[test]
    fn a_table_stays_until_another_was_read() -> Result {
        let cache = KBox::pin_init(PortCache::new(), GFP_KERNEL)?;
        let found = |pkeys: Option<u16>, state| -> Result<PortAttrs> {
            let pkeys = match pkeys {
                Some(pkey) => Some(KVec::from_elem(pkey, 2, GFP_KERNEL)?),
                None => None,
            };
            Ok(PortAttrs {
                pkeys,
                lmc: state as u8,
                state,
                subnet_prefix: state.into(),
            })
        };
        assert_eq!(cache.update(found(Some(0xffff), 4)?), 0);
        assert_eq!(cache.update(found(None, 1)?), 4);
        assert_eq!(cache.with(|known| known.pkey(1)), Some(0xffff));
        assert_eq!(cache.with(|known| (known.lmc, known.subnet_prefix)), (1, 1));
        assert_eq!(cache.update(found(Some(0x8001), 1)?), 1);
        assert_eq!(cache.with(|known| known.pkey(0)), Some(0x8001));
        assert_eq!(cache.with(|known| known.find_pkey(0xffff)), Some(None));
        assert_eq!(cache.with(|known| known.pkey(2)), None);
        Ok(())
    }
}
