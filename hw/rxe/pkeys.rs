// SPDX-License-Identifier: GPL-2.0

//! The P_Key table of a port (IBTA volume 1, section 10.9).
//!
//! An administrator sets its entries ([`verbs`](crate::verbs) has the file); there is no subnet manager on RoCE. A queue pair refers
//! to an entry by its index and uses the key that is there when a packet is sent or received.

use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU16, Ordering};
use kernel::prelude::*;
use kernel_ext::compat::module_param;
use roce::pkey::Pkey;

use crate::limits;
use crate::port_id::PortId;

/// An entry of the table of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PkeyIndex {
    /// The port.
    pub(crate) port: PortId,
    /// The index in its table.
    pub(crate) index: u16,
}

/// The port of a queue pair, and the keys of packets that it takes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partition {
    /// Those that an entry of the table admits.
    Entry(PkeyIndex),
    /// Those that one of two entries admits: the paths of a connection that may migrate. Packets take the first one.
    Either(PkeyIndex, PkeyIndex),
    /// Those that any entry admits: QP1 (10.9.4).
    Any(PortId),
}

impl Partition {
    /// The port that packets take.
    #[inline]
    pub(crate) fn port(self) -> PortId {
        match self {
            Self::Entry(entry) | Self::Either(entry, _) => entry.port,
            Self::Any(port) => port,
        }
    }
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

    /// Parses the decimal index and the hexadecimal value of an entry, and the number of a port other than the first one, as in
    /// `3 0x8001` and `3 0x8001 2`. Returns the number of the port, too.
    pub(crate) fn parse_entry(text: &[u8]) -> Option<(u16, Pkey, u32)> {
        let text = core::str::from_utf8(text).ok()?;
        let (index, rest) = text.trim_end().split_once(' ')?;
        let (pkey, port) = rest.split_once(' ').unwrap_or((rest, "1"));
        let pkey = u16::from_str_radix(pkey.strip_prefix("0x")?, 16).ok()?;
        Some((index.parse().ok()?, Pkey::new(pkey), port.parse().ok()?))
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

    /// The index of the first entry that admits a P_Key.
    pub(crate) fn index_of(&self, pkey: Pkey) -> Option<u16> {
        let admits = |entry: &AtomicU16| Pkey::new(entry.load(Ordering::Relaxed)).admits(pkey);
        let index = self.entries().iter().position(admits)?;
        u16::try_from(index).ok()
    }
}
