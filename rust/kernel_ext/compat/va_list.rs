// SPDX-License-Identifier: GPL-2.0

//! The arguments of a variadic function, for C: `VaListImpl` of the crate `core` up to Rust 1.92, `VaList` since.
//!
//! On x86-64 each is the structure of which a `va_list` of C is an array of one (System V ABI, 3.5.7).

use crate::bindings::__va_list_tag;

/// The `va_list` for a function of C: what `args` is the address of in a function that ends in `mut args: ...`.
#[inline(always)]
pub const fn raw<T>(args: &mut T) -> *mut __va_list_tag {
    const {
        assert!(
            size_of::<T>() == size_of::<__va_list_tag>()
                && align_of::<T>() == align_of::<__va_list_tag>(),
            "not the arguments of a variadic function"
        )
    };
    (&raw mut *args).cast()
}
