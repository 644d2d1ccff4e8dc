// SPDX-License-Identifier: GPL-2.0

//! Allocation flags that depend on the context.
//!
//! C header: `include/linux/gfp_types.h`.

use crate::{bindings, context::MaySleep, entry::FromC};
use core::marker::PhantomData;

/// Allocation flags for the functions of this crate. Flags that allow sleeping need a [`MaySleep`], and live no longer.
#[derive(Clone, Copy)]
pub struct Gfp<'a>(bindings::gfp_t, PhantomData<&'a MaySleep>);

impl Gfp<'static> {
    /// Does not sleep, and may use reserves: `GFP_ATOMIC`. Any context.
    pub const ATOMIC: Self = Self(bindings::GFP_ATOMIC, PhantomData);

    /// Does not sleep, and fails earlier: `GFP_NOWAIT`. Any context.
    pub const NOWAIT: Self = Self(bindings::GFP_NOWAIT, PhantomData);
}

impl<'a> Gfp<'a> {
    /// May sleep: `GFP_KERNEL`.
    #[inline]
    pub fn kernel(_may_sleep: &'a MaySleep) -> Self {
        Self(bindings::GFP_KERNEL, PhantomData)
    }

    /// Returns the C flags.
    #[inline]
    pub fn as_raw(self) -> bindings::gfp_t {
        self.0
    }
}

// SAFETY: `Raw` is the type of allocation flags in the header.
unsafe impl FromC for Gfp<'_> {
    type Raw = bindings::gfp_t;

    /// Wraps the flags, which by the header fit the context of the call.
    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}
