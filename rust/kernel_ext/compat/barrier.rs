// SPDX-License-Identifier: GPL-2.0

//! Memory barriers between processors: a function for each up to 7.2, functions that take the ordering since 7.3.
//!
//! C header: `include/asm-generic/barrier.h`.

use kernel::sync::barrier;

/// A full memory barrier between processors.
#[inline(always)]
pub fn smp_mb() {
    #[cfg(has_barrier_orderings)]
    barrier::smp_mb(barrier::Full);
    #[cfg(not(has_barrier_orderings))]
    barrier::smp_mb();
}
