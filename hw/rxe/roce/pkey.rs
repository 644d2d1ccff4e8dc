// SPDX-License-Identifier: GPL-2.0

//! Partition keys (IBTA volume 1, sections 9.6.1.1.1 and 10.9).

/// A partition key: the number of a partition, and whether its holder is a full or a limited member of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pkey(u16);

impl Pkey {
    /// The default partition, as a full member.
    pub const DEFAULT: Self = Self(0xffff);

    /// No partition: an entry of a table that is not in use.
    pub const NONE: Self = Self(0);

    const FULL: u16 = 0x8000;

    /// A P_Key as it is in packets and tables.
    #[inline]
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// The P_Key as it is in packets and tables.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Whether the holder is a full member.
    #[inline]
    pub const fn is_full(self) -> bool {
        self.0 & Self::FULL != 0
    }

    /// The number of the partition; 0 for none.
    #[inline]
    pub const fn partition(self) -> u16 {
        self.0 & !Self::FULL
    }

    /// Whether the holders of both keys may communicate: they are members of the same partition, and not both limited ones.
    #[inline]
    pub const fn admits(self, other: Self) -> bool {
        self.partition() != 0
            && self.partition() == other.partition()
            && (self.is_full() || other.is_full())
    }
}
