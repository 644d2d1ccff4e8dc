// SPDX-License-Identifier: GPL-2.0

//! The path MTU, `enum ib_mtu` of `<rdma/ib_verbs.h>`: the maximum payload of a packet.

/// A path MTU (PMTU): the payload of every packet of a message except for the last one. The discriminants are those of
/// `enum ib_mtu` in `<rdma/ib_verbs.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256 = 1,
    /// 512 bytes.
    Mtu512 = 2,
    /// 1024 bytes.
    Mtu1024 = 3,
    /// 2048 bytes.
    Mtu2048 = 4,
    /// 4096 bytes.
    Mtu4096 = 5,
}

impl Mtu {
    /// All sizes in ascending order.
    pub const ALL: [Self; 5] = [
        Self::Mtu256,
        Self::Mtu512,
        Self::Mtu1024,
        Self::Mtu2048,
        Self::Mtu4096,
    ];

    /// The size, in bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// The binary logarithm of the size in bytes: from 8 to 12.
    #[inline]
    pub const fn shift(self) -> u32 {
        self as u32 + 7
    }

    /// The size by its value in `enum ib_mtu` (1 to 5); `None` for any other value.
    pub const fn from_ib(value: u32) -> Option<Self> {
        match value {
            1 => Some(Self::Mtu256),
            2 => Some(Self::Mtu512),
            3 => Some(Self::Mtu1024),
            4 => Some(Self::Mtu2048),
            5 => Some(Self::Mtu4096),
            _ => None,
        }
    }

    /// The largest size up to `bytes`; `None` below 256.
    pub const fn fitting(bytes: u32) -> Option<Self> {
        match bytes {
            0..=255 => None,
            256..=511 => Some(Self::Mtu256),
            512..=1023 => Some(Self::Mtu512),
            1024..=2047 => Some(Self::Mtu1024),
            2048..=4095 => Some(Self::Mtu2048),
            _ => Some(Self::Mtu4096),
        }
    }

    /// Number of packets of a message of `length` bytes. An empty message has one packet.
    #[inline]
    pub const fn packets(self, length: u32) -> u32 {
        match length.div_ceil(self.bytes()) {
            0 => 1,
            packets => packets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_ib_mtu() {
        let bytes = [256, 512, 1024, 2048, 4096];
        for (value, (mtu, bytes)) in (1..).zip(Mtu::ALL.into_iter().zip(bytes)) {
            assert_eq!(Mtu::from_ib(value), Some(mtu));
            assert_eq!(mtu.bytes(), bytes);
            assert_eq!(Mtu::fitting(bytes), Some(mtu));
            assert_eq!(Mtu::fitting(bytes * 2 - 1), Some(mtu));
        }
        assert_eq!(Mtu::from_ib(0), None);
        assert_eq!(Mtu::from_ib(6), None);
        assert_eq!(Mtu::fitting(255), None);
        assert_eq!(Mtu::fitting(u32::MAX), Some(Mtu::Mtu4096));
    }

    #[test]
    fn packets_of_a_message() {
        for mtu in Mtu::ALL {
            assert_eq!(mtu.packets(0), 1);
            assert_eq!(mtu.packets(1), 1);
            assert_eq!(mtu.packets(mtu.bytes()), 1);
            assert_eq!(mtu.packets(mtu.bytes() + 1), 2);
        }
        assert_eq!(Mtu::Mtu256.packets(1 << 31), 1 << 23);
        assert_eq!(Mtu::Mtu256.packets(u32::MAX), 1 << 24);
    }
}
