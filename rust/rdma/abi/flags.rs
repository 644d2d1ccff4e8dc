// SPDX-License-Identifier: GPL-2.0

//! Macros that declare typed flags and enumerations over the constants of C headers.

/// Declares a set of flags over a C word.
///
/// Bits without a name are kept as they came from C. To refuse them, a method checks that the set
/// is empty [`without`](Access::without) the flags that it supports.
macro_rules! c_flags {
    (
        $(#[$meta:meta])*
        pub struct $name:ident($repr:ty) {
            $( $(#[$flag_meta:meta])* $flag:ident = $value:expr; )*
        }
    ) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name($repr);

        impl $name {
            $( $(#[$flag_meta])* pub const $flag: Self = Self($value as $repr); )*

            /// No flags.
            #[inline]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The set with the C value `bits`.
            #[inline]
            pub const fn from_bits(bits: $repr) -> Self {
                Self(bits)
            }

            /// The C value of the set.
            #[inline]
            pub const fn bits(self) -> $repr {
                self.0
            }

            /// Whether all of `other` are in the set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any of `other` is in the set.
            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether the set has no flag, named or not.
            #[inline]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// The union of both sets, for constants; elsewhere `|` reads better.
            #[inline]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The set without the flags in `other`.
            #[inline]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }

        impl ::core::ops::BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }

        impl ::core::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                *self = self.with(other);
            }
        }
    };
}

/// Declares an enumeration over the constants of a C enumeration.
///
/// `TryFrom<u32>` returns `EINVAL` for values that are not listed.
macro_rules! c_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $value:expr, )*
        }
    ) => {
        $(#[$meta])*
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $( $(#[$variant_meta])* $variant = $value as u32, )*
        }

        impl $name {
            /// The value of the C enumeration.
            #[inline]
            pub const fn as_raw(self) -> u32 {
                self as u32
            }
        }

        impl TryFrom<u32> for $name {
            type Error = ::kernel::error::Error;

            #[inline]
            fn try_from(raw: u32) -> ::core::result::Result<Self, Self::Error> {
                $(
                    if raw == Self::$variant as u32 {
                        return Ok(Self::$variant);
                    }
                )*
                Err(::kernel::error::code::EINVAL)
            }
        }
    };
}
