// SPDX-License-Identifier: GPL-2.0

//! An initializer for memory behind a raw pointer: a method of the trait up to 7.2, a function of the crate `pin_init` since 7.3.

use pin_init::PinInit;

/// Initializes memory. After an error nothing there is initialized.
///
/// # Safety
///
/// `slot` is valid for writes. What is there afterwards does not move until it is dropped.
#[inline(always)]
pub unsafe fn initialize<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    #[cfg(has_raw_try_init)]
    // SAFETY: The caller promises what the initializer asks for.
    return unsafe { pin_init::raw_try_init(slot, init) };
    #[cfg(not(has_raw_try_init))]
    // SAFETY: As above.
    return unsafe { init.__pinned_init(slot) };
}
