// SPDX-License-Identifier: GPL-2.0

//! 24-bit sequence numbers, which wrap around.
//!
//! A packet sequence number counts modulo 2^24, so that "before" and "after" are only meaningful for two numbers less
//! than 2^23 apart (IBTA volume 1, section 9.7.2). This order is not transitive, so [`Psn`] has named comparisons and
//! no [`PartialOrd`].

/// Number of sequence numbers.
const MODULUS: u32 = 1 << 24;
/// Mask of a sequence number in a `u32`.
const MASK: u32 = MODULUS - 1;
/// Half of the range: the distance from which "after" becomes "before".
const HALF: u32 = MODULUS / 2;

/// A packet sequence number (PSN): an unsigned integer modulo 2^24.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// A number from the low 24 bits of `value`; the others are ignored.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, less than 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number after this one.
    #[inline]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The number before this one.
    #[inline]
    pub const fn prev(self) -> Self {
        self.sub(1)
    }

    /// The number `count` after this one.
    #[inline]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// The number `count` before this one.
    #[inline]
    pub const fn sub(self, count: u32) -> Self {
        Self::new(self.0.wrapping_sub(count))
    }

    /// The signed distance from `from` to this number: from -2^23 to 2^23 - 1, negative where it is before `from`.
    #[inline]
    pub const fn distance(self, from: Self) -> i32 {
        let ahead = self.offset(from);
        if ahead < HALF {
            ahead as i32
        } else {
            ahead as i32 - MODULUS as i32
        }
    }

    /// The distance from `from` forward to this number: from 0 to 2^24 - 1.
    #[inline]
    pub const fn offset(self, from: Self) -> u32 {
        self.0.wrapping_sub(from.0) & MASK
    }

    /// Whether this number is before `other`.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Whether this number is after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// Whether this number is one of the `count` numbers that begin with `first`.
    #[inline]
    pub const fn is_within(self, first: Self, count: u32) -> bool {
        self.offset(first) < count
    }
}

/// A message sequence number (MSN): the number of request messages that a responder has completed, modulo 2^24 (IBTA
/// volume 1, section 9.7.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Msn(u32);

impl Msn {
    /// A number from the low 24 bits of `value`; the others are ignored.
    #[inline]
    pub const fn new(value: u32) -> Self {
        Self(value & MASK)
    }

    /// The number, less than 2^24.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number after this one.
    #[inline]
    pub const fn next(self) -> Self {
        self.add(1)
    }

    /// The number that follows this one by `count`.
    #[inline]
    pub const fn add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Whether this number is after `other`.
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        let ahead = self.0.wrapping_sub(other.0) & MASK;
        ahead != 0 && ahead < HALF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_24_bits_count() {
        assert_eq!(Psn::new(0xff12_3456), Psn::new(0x12_3456));
        assert_eq!(Psn::new(u32::MAX).get(), 0xff_ffff);
        assert_eq!(Msn::new(0x0100_0005).get(), 5);
    }

    #[test]
    fn wraps_at_both_ends() {
        assert_eq!(Psn::new(0xff_ffff).next(), Psn::new(0));
        assert_eq!(Psn::new(0).prev(), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(0xff_fff0).add(0x20), Psn::new(0x10));
        assert_eq!(Psn::new(0x10).sub(0x20), Psn::new(0xff_fff0));
        assert_eq!(Psn::new(1).add(u32::MAX), Psn::new(0));
        assert_eq!(Msn::new(0xff_ffff).next(), Msn::new(0));
    }

    #[test]
    fn distances() {
        let table = [
            // number, from, distance
            (0x00_0000, 0x00_0000, 0),
            (0x00_0001, 0x00_0000, 1),
            (0x00_0000, 0x00_0001, -1),
            (0x00_0000, 0xff_ffff, 1),
            (0xff_ffff, 0x00_0000, -1),
            (0x7f_ffff, 0x00_0000, 0x7f_ffff),
            (0x80_0000, 0x00_0000, -0x80_0000),
            (0x80_0001, 0x00_0000, -0x7f_ffff),
            (0x00_0010, 0xff_fff0, 0x20),
        ];
        for (number, from, distance) in table {
            assert_eq!(Psn::new(number).distance(Psn::new(from)), distance);
        }
    }

    #[test]
    fn ranges_may_wrap() {
        let first = Psn::new(0xff_fffe);
        assert!(!Psn::new(0xff_fffd).is_within(first, 4));
        assert!(Psn::new(0xff_fffe).is_within(first, 4));
        assert!(Psn::new(0x00_0001).is_within(first, 4));
        assert!(!Psn::new(0x00_0002).is_within(first, 4));
        assert!(!first.is_within(first, 0));
    }
}
