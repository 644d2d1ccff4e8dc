// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): the structures that the MAD layer of the core shares with its clients in C, and the special
//! queue pairs that MADs travel over.
//!
//! | type | meaning | owner |
//! |---|---|---|
//! | [`AgentBody`](agent::AgentBody) | `struct ib_mad_agent`, in the layer's agent | the client that registered it |
//! | [`SendBody`](send::SendBody) | `struct ib_mad_send_buf` and its memory | the client; the layer too while it is posted |
//! | [`RecvMad`](recv::RecvMad) | `struct ib_mad_recv_wc` and its memory | in turn the queue pair, the layer, the client |
//! | [`SpecialQps`](qp::SpecialQps) | QP0 and QP1 of a port, and their completion queue | the layer |
//!
//! C header: `include/rdma/ib_mad.h`.

pub mod agent;
pub mod qp;
pub mod recv;
pub mod security;
pub mod send;
pub mod trace;

use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use kernel_ext::entry::{FromC, IntoC};

/// The part of an object that C uses.
///
/// # Safety
///
/// `Self` begins with a `C`.
pub unsafe trait Body {
    /// The C structure.
    type C;

    /// Notes that C has a reference to the object.
    ///
    /// # Safety
    ///
    /// C has just got it, and gives it back as an [`OwnedArg`] or by the result of a call.
    unsafe fn given(&self) {}

    /// Notes that C has given its reference up.
    fn taken(&self) {}
}

/// A reference-counted object of the layer, to whose body C has pointers. [`embeds!`](crate::embeds) implements it.
///
/// # Safety
///
/// `Self` has a `Self::Body` at `OFFSET`. No other type has a body of this type that C gets a pointer to: where C passes one back, the
/// object is a `Self`.
pub unsafe trait Embeds: Sized + Send + Sync + 'static {
    /// The body.
    type Body: Body;

    /// The offset of the body in bytes.
    const OFFSET: usize;

    /// The body.
    fn body(&self) -> &Self::Body;
}

/// Implements [`Embeds`] for an object, whose body is the member.
///
/// # Safety
///
/// No other type has a body of this type that C gets a pointer to. That the member is the body need not be proved: the macro takes its
/// own offset, and `body` compiles only for a member of that type.
#[macro_export]
macro_rules! embeds {
    (unsafe impl Embeds for $object:ty { $member:ident: $body:ty }) => {
        // SAFETY: By the safety requirements of the macro, whose user writes `unsafe`; for the offset see there.
        unsafe impl $crate::core::mad::Embeds for $object {
            type Body = $body;
            const OFFSET: usize = core::mem::offset_of!($object, $member);

            #[inline]
            fn body(&self) -> &$body {
                &self.$member
            }
        }
    };
}

type CBody<T> = <<T as Embeds>::Body as Body>::C;

/// The body of an object, for C. The result has the provenance of `object`, so that [`object_of`] may go back to the object.
#[inline]
fn body_of<T: Embeds>(object: *const T) -> *mut CBody<T> {
    object.wrapping_byte_add(T::OFFSET).cast_mut().cast()
}

/// The pointer by which C refers to an object.
#[inline]
pub fn c_pointer<T: Embeds>(object: &Arc<T>) -> *mut CBody<T> {
    body_of(Arc::as_ptr(object))
}

/// The object whose body is at `raw`.
#[inline]
fn object_of<T: Embeds>(raw: *mut CBody<T>) -> *const T {
    raw.wrapping_byte_sub(T::OFFSET).cast()
}

/// An object that C lends for a call.
pub struct Borrowed<'a, T: Embeds>(ArcBorrow<'a, T>);

impl<T: Embeds> core::ops::Deref for Borrowed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Embeds> Borrowed<'_, T> {
    /// Takes a reference.
    #[inline]
    pub fn hold(&self) -> Arc<T> {
        self.0.into()
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Embeds> FromC for Borrowed<'_, T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements `raw` is the body of an object in an `Arc`, to which C holds a reference during the
        // call.
        Self(unsafe { ArcBorrow::from_raw(object_of(raw)) })
    }
}

/// An object that C lends for a call, or null.
pub struct MaybeBorrowed<'a, T: Embeds>(pub Option<Borrowed<'a, T>>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Embeds> FromC for MaybeBorrowed<'_, T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid as for `Borrowed`.
        Self((!raw.is_null()).then(|| unsafe { Borrowed::from_c(raw) }))
    }
}

/// An argument by which C gives up its reference to an object.
pub struct OwnedArg<T: Embeds>(pub Arc<T>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: Embeds> FromC for OwnedArg<T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: C has the reference from an `ArcOrErr`, and by the header the function takes it over.
        let object = unsafe { Arc::from_raw(object_of::<T>(raw)) };
        object.body().taken();
        Self(object)
    }
}

/// The result of a C entry point that creates an object: a reference to it, or an errno (`ERR_PTR`).
pub struct ArcOrErr<T: Embeds>(pub Result<Arc<T>>);

impl<T: Embeds> IntoC for ArcOrErr<T> {
    type Raw = *mut CBody<T>;

    #[inline]
    fn into_c(self) -> Self::Raw {
        match self.0 {
            // C owns the reference until it comes back as `OwnedArg`.
            Ok(object) => {
                // SAFETY: It is given to C here.
                unsafe { object.body().given() };
                body_of(Arc::into_raw(object))
            }
            Err(error) => error.to_ptr(),
        }
    }
}
