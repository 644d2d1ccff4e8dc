// SPDX-License-Identifier: GPL-2.0

//! Conversion of arguments and results of exported functions (C entry points).
//!
//! [`#[export]`](macro@crate::export::export) on a safe function generates the function that C calls. It converts each
//! argument by [`FromC`], and the result by [`IntoC`]:
//!
//! | Rust | C |
//! |---|---|
//! | `&T`, a view of an object | `T *`, not null |
//! | `Option<&T>` | `T *`, may be null |
//! | [`Const<T>`] | `const T *`, not null |
//! | `&CStr` | `const char *`, not null |
//! | [`Input<T>`] | `const T *`, plain data that the caller filled in |
//! | `&mut T` | `T *`, plain data that is read and written |
//! | [`Out<T>`], `Option<Out<T>>` | `T *`, for a result; may be null in an `Option` |
//! | an integer, `bool`, a raw pointer | the same |
//! | `Result` | `int`: 0 or a negative errno |
//! | [`ErrPtr<T>`] | `T *`, or an errno in it (`ERR_PTR`) |
//! | [`BytesIn`], [`BytesOut`] | `const void *` or `void *`, and a `size_t`: the number of bytes |
//! | [`SliceOut<T>`] | `T *` and a `size_t`: the number of values |
//! | `&MaySleep` | none: the generated function makes it |
//!
//! Other types are arguments if they implement [`FromC`]; [`view_of!`](crate::view_of) defines a view of a C structure.

use core::marker::PhantomData;
use kernel::{error::Result, ffi, prelude::*};

/// Conversion of an argument from C.
///
/// # Safety
///
/// `Raw` is the type that the C header declares for such an argument.
pub unsafe trait FromC {
    /// The C type.
    type Raw;

    /// Converts an argument from C.
    ///
    /// # Safety
    ///
    /// `raw` is what a caller of the C function may pass, and what it refers to is valid until the function returns.
    unsafe fn from_c(raw: Self::Raw) -> Self;
}

/// Conversion of two arguments from C, a pointer and a number. The macro recognises the implementing types by their
/// names.
///
/// # Safety
///
/// `Pointer` is the type that the C header declares for the first one; the second is a `size_t`.
pub unsafe trait FromCPair {
    /// The C type of the pointer.
    type Pointer;

    /// Converts the arguments.
    ///
    /// # Safety
    ///
    /// They are what a caller of the C function may pass, and what they refer to is valid until the function returns.
    unsafe fn from_c(pointer: Self::Pointer, count: usize) -> Self;
}

/// Bytes that C passes to be copied.
///
/// # Invariants
///
/// `start` is valid for reads of `len` bytes for `'a`. They need not be initialised: a C structure has padding.
#[derive(Clone, Copy)]
pub struct BytesIn<'a> {
    start: *const ffi::c_void,
    len: usize,
    _bytes: PhantomData<&'a ()>,
}

impl<'a> BytesIn<'a> {
    /// The bytes of values, padding included.
    #[inline]
    pub fn of<T>(values: &'a [T]) -> Self {
        // INVARIANT: The values are borrowed for `'a`.
        Self {
            start: values.as_ptr().cast(),
            len: size_of_val(values),
            _bytes: PhantomData,
        }
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(&self) -> *const ffi::c_void {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

// SAFETY: `Pointer` is the type of a buffer that is only read, in the header.
unsafe impl FromCPair for BytesIn<'_> {
    type Pointer = *const ffi::c_void;

    #[inline(always)]
    unsafe fn from_c(start: *const ffi::c_void, len: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            start,
            len,
            _bytes: PhantomData,
        }
    }
}

/// A C buffer for output bytes.
///
/// # Invariants
///
/// `start` is valid for writes of `len` bytes for `'a`, with exclusive access.
pub struct BytesOut<'a> {
    start: *mut ffi::c_void,
    len: usize,
    _room: PhantomData<&'a mut ()>,
}

impl BytesOut<'_> {
    /// The first byte.
    #[inline]
    pub fn as_ptr(&self) -> *mut ffi::c_void {
        self.start
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

// SAFETY: `Pointer` is the type of an output buffer in the header.
unsafe impl FromCPair for BytesOut<'_> {
    type Pointer = *mut ffi::c_void;

    #[inline(always)]
    unsafe fn from_c(start: *mut ffi::c_void, len: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            start,
            len,
            _room: PhantomData,
        }
    }
}

/// A C array for output values.
pub struct SliceOut<'a, T>(pub &'a mut [core::mem::MaybeUninit<T>]);

// SAFETY: `Pointer` is the type of an output array in the header.
unsafe impl<T> FromCPair for SliceOut<'_, T> {
    type Pointer = *mut T;

    #[inline(always)]
    unsafe fn from_c(first: *mut T, count: usize) -> Self {
        if count == 0 {
            return Self(&mut []);
        }
        // SAFETY: By the safety requirements the array is valid for writes of `count` values.
        Self(unsafe { core::slice::from_raw_parts_mut(first.cast(), count) })
    }
}

/// Conversion of a result to C.
pub trait IntoC {
    /// The C type.
    type Raw;

    /// Converts a result to C.
    fn into_c(self) -> Self::Raw;
}

macro_rules! plain {
    ($($ty:ty)*) => {$(
        // SAFETY: `Raw` is the type in the header.
        unsafe impl FromC for $ty {
            type Raw = Self;

            #[inline(always)]
            unsafe fn from_c(raw: Self) -> Self {
                raw
            }
        }

        impl IntoC for $ty {
            type Raw = Self;

            #[inline(always)]
            fn into_c(self) -> Self {
                self
            }
        }
    )*};
}
plain! { u8 u16 u32 u64 usize i8 i16 i32 i64 isize bool }

// SAFETY: `Raw` is the type in the header.
unsafe impl<T> FromC for *mut T {
    type Raw = Self;

    #[inline(always)]
    unsafe fn from_c(raw: Self) -> Self {
        raw
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl<T> FromC for *const T {
    type Raw = Self;

    #[inline(always)]
    unsafe fn from_c(raw: Self) -> Self {
        raw
    }
}

impl<T> IntoC for *mut T {
    type Raw = Self;

    #[inline(always)]
    fn into_c(self) -> Self {
        self
    }
}

impl<T> IntoC for *const T {
    type Raw = Self;

    #[inline(always)]
    fn into_c(self) -> Self {
        self
    }
}

impl IntoC for () {
    type Raw = ();

    #[inline(always)]
    fn into_c(self) {}
}

impl IntoC for Result {
    type Raw = ffi::c_int;

    #[inline]
    fn into_c(self) -> ffi::c_int {
        match self {
            Ok(()) => 0,
            Err(error) => error.to_errno(),
        }
    }
}

/// A view of a C structure: a reference to it in Rust.
///
/// # Safety
///
/// The type is a transparent wrapper of `C` that may be shared: `C` is inside an
/// [`Opaque`](kernel::types::Opaque).
pub unsafe trait View {
    /// The C structure.
    type C;
}

/// Defines a transparent view of a C structure, for arguments `&View` from `struct x *`.
///
/// ```
/// # use kernel_ext::{bindings::ib_pd, entry::view_of};
/// view_of! {
///     /// A protection domain.
///     pub struct Pd(ib_pd);
/// }
/// ```
#[macro_export]
macro_rules! view_of {
    ($(#[$attr:meta])* $vis:vis struct $name:ident($c:ty);) => {
        $(#[$attr])*
        #[repr(transparent)]
        $vis struct $name(::kernel::types::Opaque<$c>);

        // SAFETY: The structure may be used from any thread; the methods synchronise access to members that change.
        unsafe impl Send for $name {}
        // SAFETY: The structure may be used from any thread; the methods synchronise access to members that change.
        unsafe impl Sync for $name {}

        // SAFETY: The type is a transparent wrapper of an `Opaque`.
        unsafe impl $crate::entry::View for $name {
            type C = $c;
        }

        impl $name {
            /// The C structure.
            #[inline(always)]
            $vis fn as_raw(&self) -> *mut $c {
                self.0.get()
            }
        }
    };
}
pub use view_of;

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: View> FromC for &T {
    type Raw = *mut T::C;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid; a view is a transparent wrapper.
        unsafe { &*raw.cast() }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: View> FromC for Option<&T> {
    type Raw = *mut T::C;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid if the pointer is not null.
        unsafe { raw.cast::<T>().as_ref() }
    }
}

/// A view that C passes as a pointer to `const`.
#[derive(Clone, Copy)]
pub struct Const<'a, T>(pub &'a T);

impl<T> core::ops::Deref for Const<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: View> FromC for Const<'_, T> {
    type Raw = *const T::C;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

// SAFETY: The kernel's type is a transparent wrapper of an `Opaque` `struct device`.
unsafe impl View for kernel::device::Device {
    type C = crate::bindings::device;
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for &CStr {
    type Raw = *const ffi::c_char;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the string is valid.
        unsafe { CStr::from_char_ptr(raw) }
    }
}

/// Plain data that C passes as a pointer to `const`.
#[derive(Clone, Copy)]
pub struct Input<'a, T>(pub &'a T);

impl<T> core::ops::Deref for Input<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Zeroable> FromC for Input<'_, T> {
    type Raw = *const T;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the data is valid, and not changed during the call.
        Self(unsafe { &*raw })
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Zeroable> FromC for &mut T {
    type Raw = *mut T;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the data is valid, and lent for writing during the call.
        unsafe { &mut *raw }
    }
}

/// An output argument for plain data; its initial content is undefined.
pub struct Out<'a, T>(core::ptr::NonNull<T>, PhantomData<&'a mut T>);

impl<'a, T: Zeroable> Out<'a, T> {
    /// Sets the value.
    #[inline(always)]
    pub fn set(self, value: T) {
        // SAFETY: The pointer is valid for writes during the call, and plain data needs no drop.
        unsafe { self.0.as_ptr().write(value) };
    }

    /// Zeroes the value and returns a reference to it.
    #[inline]
    pub fn zeroed(self) -> &'a mut T {
        let place = self.0.as_ptr();
        // SAFETY: The pointer is valid for writes during the call; zeros are a valid value.
        unsafe {
            place.write_bytes(0, 1);
            &mut *place
        }
    }

    /// Returns a reference to the value that the caller has set.
    ///
    /// # Safety
    ///
    /// By the C header the caller has initialised the value.
    #[inline(always)]
    pub unsafe fn filled(self) -> &'a mut T {
        // SAFETY: The pointer is valid during the call, and by the safety requirements the value is initialised.
        unsafe { &mut *self.0.as_ptr() }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T> FromC for Out<'_, T> {
    type Raw = *mut T;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is not null.
        let place = unsafe { core::ptr::NonNull::new_unchecked(raw) };
        Self(place, PhantomData)
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T> FromC for Option<Out<'_, T>> {
    type Raw = *mut T;

    #[inline(always)]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        core::ptr::NonNull::new(raw).map(|raw| Out(raw, PhantomData))
    }
}

/// A pointer or an errno, returned to C as `ERR_PTR`.
pub struct ErrPtr<T>(pub Result<*mut T>);

impl<T> IntoC for ErrPtr<T> {
    type Raw = *mut T;

    #[inline]
    fn into_c(self) -> *mut T {
        self.0.unwrap_or_else(|error| error.to_ptr())
    }
}
