// SPDX-License-Identifier: GPL-2.0

//! Items that the expansion of [`#[export]`](macro@export) refers to.

#[doc(inline)]
pub use rdma_macros::export;

/// The declarations of the C headers, with which the macro compares the exported items.
#[doc(hidden)]
pub use rdma_bindings as header;

/// A type that [`#[export]`](macro@export) accepts for a `static`: it has the type in the C header.
///
/// # Safety
///
/// The type has the layout of `Header`, and may be used from any thread.
pub unsafe trait ExportedStatic: Sync {
    /// The type in the C header.
    type Header;
}

/// Compiles only if the C header declares the type of `_this`.
#[doc(hidden)]
pub fn check<T: ExportedStatic>(_header: *const T::Header, _this: &T) {}

// SAFETY: The type is a transparent wrapper of `T`, and `Sync`.
unsafe impl<T> ExportedStatic for Exported<T> {
    type Header = T;
}

/// A constant table for C, as the type of an exported `static`.
#[repr(transparent)]
pub struct Exported<T>(pub T);

// SAFETY: The value is constant, and C code may read it from any thread.
unsafe impl<T> Sync for Exported<T> {}
