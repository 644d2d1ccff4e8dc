// SPDX-License-Identifier: GPL-2.0

//! The two times in a QP's attributes that are encoded in five bits, and the limits of the wait after an RNR NAK.

/// The shortest wait after the first RNR NAK for a request, in nanoseconds. It doubles with each further one.
pub(crate) const FIRST_RNR_PAUSE: u64 = 10_000;

/// The shortest wait after many RNR NAKs for a request, in nanoseconds: the code 18 of [`RnrTimer`].
pub(crate) const LONGEST_RNR_PAUSE: u64 = 5_120_000;

/// Delay of a requester after an RNR NAK before it retries (IBTA volume 1, section 9.7.5.2.8): a code from 0 to 31. The
/// responder's `min_rnr_timer` attribute and the field of the AETH have the same encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// The specification's table: microseconds by code.
    const MICROSECONDS: [u32; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, // codes 0 to 7
        160, 240, 320, 480, 640, 960, 1_280, 1_920, // codes 8 to 15
        2_560, 3_840, 5_120, 7_680, 10_240, 15_360, 20_480, 30_720, // codes 16 to 23
        40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680, 491_520, // codes 24 to 31
    ];

    /// A timer from the low 5 bits of `code`; the others are ignored.
    #[inline]
    pub const fn new(code: u8) -> Self {
        Self(code & 31)
    }

    /// The code, from 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in microseconds: from 10 to 655,360.
    #[inline]
    pub const fn microseconds(self) -> u32 {
        Self::MICROSECONDS[(self.0 & 31) as usize]
    }

    /// The time in nanoseconds.
    #[inline]
    pub const fn nanoseconds(self) -> u64 {
        self.microseconds() as u64 * 1000
    }
}

/// Timeout of a requester for an acknowledge before it retries (IBTA volume 1, section 9.7.6.1.3): a code from 0 to 31,
/// the `timeout` attribute of a QP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// A timeout from the low 5 bits of `code`; the others are ignored.
    #[inline]
    pub const fn new(code: u8) -> Self {
        Self(code & 31)
    }

    /// The code, from 0 to 31.
    #[inline]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in nanoseconds, 4.096 us times 2^code; `None` for code 0, which means no timeout.
    #[inline]
    pub const fn nanoseconds(self) -> Option<u64> {
        match self.0 & 31 {
            0 => None,
            code => Some(4096 << code),
        }
    }

    /// The wait for an acknowledge after a number of consecutive timeouts, in nanoseconds: it doubles with each one, up to four
    /// times the attribute's, which is the longest that the specification allows. So a peer that is busy is not given up early.
    #[inline]
    pub const fn nanoseconds_after(self, timeouts: u8) -> Option<u64> {
        let doublings = if timeouts < 2 { timeouts } else { 2 };
        match self.nanoseconds() {
            None => None,
            Some(first) => Some(first << doublings),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_timer_table() {
        assert_eq!(RnrTimer::new(0).microseconds(), 655_360);
        assert_eq!(RnrTimer::new(1).microseconds(), 10);
        assert_eq!(RnrTimer::new(14).microseconds(), 1_280);
        assert_eq!(RnrTimer::new(25).microseconds(), 61_440);
        assert_eq!(RnrTimer::new(31).nanoseconds(), 491_520_000);
        assert_eq!(RnrTimer::new(33), RnrTimer::new(1));
    }

    /// From code 5 on the table doubles every second code, and it increases except for code 0.
    #[test]
    fn rnr_timer_table_is_regular() {
        let time = |code| RnrTimer::new(code).microseconds();
        for code in 5..30 {
            assert_eq!(time(code + 2), 2 * time(code), "code {code}");
        }
        for code in 1..31 {
            assert!(time(code) < time(code + 1), "code {code}");
        }
        assert!(time(0) > time(31));
    }

    #[test]
    fn ack_timeouts() {
        assert_eq!(AckTimeout::new(0).nanoseconds(), None);
        assert_eq!(AckTimeout::new(1).nanoseconds(), Some(8_192));
        assert_eq!(AckTimeout::new(14).nanoseconds(), Some(67_108_864));
        assert_eq!(AckTimeout::new(31).nanoseconds(), Some(4_096 << 31));
        assert_eq!(AckTimeout::new(32).nanoseconds(), None);
    }

    /// Never less than the attribute says, never more than four times that.
    #[test]
    fn ack_timeouts_grow() {
        for code in 1..32 {
            let timeout = AckTimeout::new(code);
            let first = timeout.nanoseconds().expect("finite");
            let waits = [0, 1, 2, 3, 255].map(|timeouts| timeout.nanoseconds_after(timeouts));
            let expected = [1, 2, 4, 4, 4].map(|times| Some(first * times));
            assert_eq!(waits, expected, "code {code}");
        }
        assert_eq!(AckTimeout::new(0).nanoseconds_after(3), None);
    }
}
