// SPDX-License-Identifier: GPL-2.0

//! What [`#[export]`](macro@export) writes into its users.

#[doc(inline)]
pub use rdma_macros::export;

/// The declarations of the C headers, which the macro compares with what is exported.
#[doc(hidden)]
pub use rdma_bindings as header;

/// What [`#[export]`](macro@export) takes for a `static`: it says which type the C header declares.
///
/// # Safety
///
/// The type has the layout of `Header`, and may be used from any thread.
pub unsafe trait ExportedStatic: Sync {
    /// The type in the C header.
    type Header;
}

/// Compiles if the C header declares what `_this` holds.
#[doc(hidden)]
pub fn check<T: ExportedStatic>(_header: *const T::Header, _this: &T) {}

// SAFETY: A transparent wrapper.
unsafe impl<T> ExportedStatic for Exported<T> {
    type Header = T;
}

/// A constant table for C: what [`#[export]`](macro@export) takes for a `static`.
#[repr(transparent)]
pub struct Exported<T>(pub T);

// SAFETY: The value is constant, and C code may read it from any thread.
unsafe impl<T> Sync for Exported<T> {}
