// SPDX-License-Identifier: GPL-2.0

//! The limits in `struct ib_device_attr`: signed up to 7.2, unsigned since 7.3.
//!
//! C header: `include/rdma/ib_verbs.h`.

/// The type of a limit.
pub trait Limit {
    /// The limit `most`. What is more than a signed limit can be becomes its maximum.
    fn from_most(most: u32) -> Self;

    /// The limit; a negative one is 0.
    fn most(self) -> u32;

    /// The limit as the user ABI has it, where all are unsigned.
    fn bits(self) -> u32;
}

impl Limit for i32 {
    fn from_most(most: u32) -> Self {
        Self::try_from(most).unwrap_or(Self::MAX)
    }

    fn most(self) -> u32 {
        self.try_into().unwrap_or(0)
    }

    fn bits(self) -> u32 {
        self as u32
    }
}

impl Limit for u32 {
    fn from_most(most: u32) -> Self {
        most
    }

    fn most(self) -> u32 {
        self
    }

    fn bits(self) -> u32 {
        self
    }
}

/// The limit `most`, in the type of the field that it is for.
pub fn limit<T: Limit>(most: u32) -> T {
    T::from_most(most)
}
