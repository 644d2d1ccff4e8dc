// SPDX-License-Identifier: GPL-2.0

//! Callbacks of clients in C: a function, and the context that it is called with.
//!
//! C headers: `include/rdma/ib_verbs.h` (`ib_create_cq`), `ib_mad.h`, `ib_sa.h`.

use core::marker::PhantomData;

use kernel::ffi::c_void;
use kernel_ext::entry::FromC;

/// A function pointer that C passes, or null.
///
/// # Invariants
///
/// The function may be called as its header says, with the context of the same call.
#[derive(Clone, Copy)]
pub struct Handler<'a, F>(F, PhantomData<&'a ()>);

// SAFETY: `Raw` is the type in the header.
unsafe impl<F> FromC for Handler<'_, F> {
    type Raw = F;

    #[inline]
    unsafe fn from_c(raw: F) -> Self {
        // INVARIANT: By the header C passes a function together with its context.
        Self(raw, PhantomData)
    }
}

impl<F> Handler<'_, Option<F>> {
    /// Whether the pointer is not null.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl<'a, F> Handler<'a, F> {
    /// The function of a call that has no context: what it is called with says so itself.
    #[inline]
    pub fn alone(self) -> Callback<F> {
        // INVARIANT: By its header a function that is passed without a context needs none.
        Callback {
            function: self.0,
            context: core::ptr::null_mut(),
        }
    }

    /// Joins the function and the context of a call.
    #[inline]
    pub fn with(self, context: Context<'a>) -> Callback<F> {
        // INVARIANT: C alone makes both values, and they end with the call, so that they are of the same call.
        Callback {
            function: self.0,
            context: context.0,
        }
    }
}

/// The context that C passes together with its functions. Nobody else looks into it.
///
/// # Invariants
///
/// It belongs to the functions of the same call.
#[derive(Clone, Copy)]
pub struct Context<'a>(*mut c_void, PhantomData<&'a ()>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for Context<'_> {
    type Raw = *mut c_void;

    #[inline]
    unsafe fn from_c(raw: *mut c_void) -> Self {
        // INVARIANT: By the header C passes a context together with its functions.
        Self(raw, PhantomData)
    }
}

impl Context<'_> {
    /// The pointer.
    #[inline]
    pub(super) fn as_ptr(self) -> *mut c_void {
        self.0
    }
}

/// A function with its context.
///
/// # Invariants
///
/// The function may be called with the context, as its header says.
pub struct Callback<F> {
    function: F,
    context: *mut c_void,
}

// SAFETY: C functions are called on any thread.
unsafe impl<F> Send for Callback<F> {}
// SAFETY: C functions are called on any thread.
unsafe impl<F> Sync for Callback<F> {}

impl<F> Callback<F> {
    /// A function that C has put into a structure, with its context.
    ///
    /// # Safety
    ///
    /// The function may be called with the context, as its header says.
    pub(in crate::core) unsafe fn of_structure(function: F, context: *mut c_void) -> Self {
        // INVARIANT: By the safety requirements.
        Self { function, context }
    }
}

impl<F: Copy> Callback<F> {
    /// The function, and the context to call it with.
    #[inline]
    pub(in crate::core) fn parts(&self) -> (F, *mut c_void) {
        (self.function, self.context)
    }
}
