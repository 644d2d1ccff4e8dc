// SPDX-License-Identifier: GPL-2.0

//! Enumerations of C in functions and structures of the kernel's own crate of bindings.
//!
//! There they are integers up to 7.2 and newtypes, some of them, since 7.3; in our crate they are integers. Both have the
//! representation of an integer of 32 bits, whichever its sign.
//!
//! C headers: [`include/linux/dma-direction.h`](srctree/include/linux/dma-direction.h)

use crate::bindings;
use core::mem::transmute;

/// `enum dma_data_direction`, as functions of the kernel's crate take it.
#[inline(always)]
#[allow(
    unknown_lints,
    unnecessary_transmutes,
    reason = "up to 7.2 both are integers"
)]
pub const fn dma_direction(
    ours: bindings::dma_data_direction,
) -> kernel::bindings::dma_data_direction {
    // SAFETY: An integer of this size, or a transparent newtype around one (`transmute` compares the sizes): all values are valid.
    unsafe { transmute(ours) }
}

/// `enum dma_data_direction`, as C passes it to a function of a structure of the kernel's crate.
#[inline(always)]
#[allow(
    unknown_lints,
    unnecessary_transmutes,
    reason = "up to 7.2 both are integers"
)]
pub const fn from_dma_direction(
    theirs: kernel::bindings::dma_data_direction,
) -> bindings::dma_data_direction {
    // SAFETY: As in `dma_direction`: ours is an integer of this size.
    unsafe { transmute(theirs) }
}
