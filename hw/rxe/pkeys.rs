// SPDX-License-Identifier: GPL-2.0

//! The P_Key table of a device's port (IBTA volume 1, section 10.9).
//!
//! An administrator sets its entries ([`verbs`](crate::verbs) has the file); there is no subnet manager on RoCE. A queue pair refers
//! to an entry by its index and uses the key that is there when a packet is sent or received.

use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU16, Ordering};
use kernel::prelude::*;
use kernel_ext::compat::module_param;
use roce::pkey::Pkey;

use crate::limits;

/// The keys of packets that a queue pair takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// Those that an entry of the table admits.
    Entry(u16),
    /// Those that one of two entries admits: the paths of a connection that may migrate.
    Either(u16, u16),
    /// Those that any entry admits: QP1 (10.9.4).
    Any,
}

/// The lengths that a table may have.
const LENGTHS: RangeInclusive<u16> = 1..=limits::MAX_PKEYS;

/// The length of the tables of new devices.
fn length() -> u16 {
    module_param::value(&crate::module_parameters::pkeys)
}

/// Validates the module parameter.
///
/// # Errors
///
/// `EINVAL` for a length that a table does not have.
pub(crate) fn check_length() -> Result {
    if LENGTHS.contains(&length()) {
        return Ok(());
    }
    pr_err!("pkeys: a table has 1 to {} entries\n", limits::MAX_PKEYS);
    Err(EINVAL)
}

/// The P_Key table of a port. Any context.
pub(crate) struct Pkeys {
    entries: [AtomicU16; limits::MAX_PKEYS as usize],
    len: u16,
}

impl Pkeys {
    /// A table in which the first entry is the default P_Key, and the others are not in use.
    pub(crate) fn new() -> Self {
        let mut entries = [const { AtomicU16::new(Pkey::NONE.get()) }; limits::MAX_PKEYS as usize];
        entries[0] = AtomicU16::new(Pkey::DEFAULT.get());
        Self {
            entries,
            len: length(),
        }
    }

    /// Parses the decimal index and the hexadecimal value of an entry, as in `3 0x8001`.
    pub(crate) fn parse_entry(text: &[u8]) -> Option<(u16, Pkey)> {
        let text = core::str::from_utf8(text).ok()?;
        let (index, pkey) = text.trim_end().split_once(' ')?;
        let pkey = u16::from_str_radix(pkey.strip_prefix("0x")?, 16).ok()?;
        Some((index.parse().ok()?, Pkey::new(pkey)))
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> u16 {
        self.len
    }

    /// Whether an index is one of an entry.
    pub(crate) fn has(&self, index: u16) -> bool {
        index < self.len
    }

    fn entries(&self) -> &[AtomicU16] {
        self.entries.get(..self.len.into()).unwrap_or(&[])
    }

    /// An entry; `None` beyond the table.
    #[inline]
    pub(crate) fn get(&self, index: u16) -> Option<Pkey> {
        let entry = self.entries().get(usize::from(index))?;
        Some(Pkey::new(entry.load(Ordering::Relaxed)))
    }

    /// Sets an entry; returns whether it has changed.
    ///
    /// # Errors
    ///
    /// `EINVAL` beyond the table.
    pub(crate) fn set(&self, index: u16, pkey: Pkey) -> Result<bool> {
        let entry = self.entries().get(usize::from(index)).ok_or(EINVAL)?;
        Ok(entry.swap(pkey.get(), Ordering::Relaxed) != pkey.get())
    }

    /// The P_Key of packets that a queue pair with such an index sends.
    #[inline]
    pub(crate) fn sent_by(&self, partition: Partition) -> Pkey {
        match partition {
            Partition::Entry(index) | Partition::Either(index, _) => {
                self.get(index).unwrap_or_default()
            }
            Partition::Any => self.get(0).unwrap_or_default(),
        }
    }

    /// Whether a queue pair takes packets with a P_Key.
    #[inline]
    pub(crate) fn admits(&self, partition: Partition, pkey: Pkey) -> bool {
        match partition {
            Partition::Entry(index) => self.get(index).is_some_and(|own| own.admits(pkey)),
            Partition::Either(one, other) => [one, other]
                .iter()
                .any(|&index| self.admits(Partition::Entry(index), pkey)),
            Partition::Any => self.index_of(pkey).is_some(),
        }
    }

    /// The index of the first entry that admits a P_Key.
    pub(crate) fn index_of(&self, pkey: Pkey) -> Option<u16> {
        let admits = |entry: &AtomicU16| Pkey::new(entry.load(Ordering::Relaxed)).admits(pkey);
        let index = self.entries().iter().position(admits)?;
        u16::try_from(index).ok()
    }
}
