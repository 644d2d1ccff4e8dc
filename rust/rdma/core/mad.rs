// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): the structures that the MAD layer of the core shares with its clients in C, and the special
//! queue pairs that MADs travel over.
//!
//! | type | is | owned by |
//! |---|---|---|
//! | [`AgentBody`](agent::AgentBody) | `struct ib_mad_agent`, inside of the layer's agent | the client that registered it |
//! | [`SendBody`](send::SendBody) | `struct ib_mad_send_buf` and its memory, inside of the layer's send | the client; the layer too while it is posted |
//! | [`RecvMad`](recv::RecvMad) | `struct ib_mad_recv_wc` and its memory | who has it: the queue pair, the layer, at last the client |
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

/// The part of an object that C knows.
///
/// # Safety
///
/// A `C` is at the beginning of the type.
pub unsafe trait Body {
    /// The structure of C.
    type C;
}

/// An object of the layer, counted, whose body C has pointers to: [`embeds!`](crate::embeds) implements it.
///
/// # Safety
///
/// There is a `Self::Body` at `OFFSET`.
pub unsafe trait Embeds: Sized + Send + Sync + 'static {
    /// What C knows of it.
    type Body: Body;

    /// Where the body is in the object.
    const OFFSET: usize;

    /// What C knows of it.
    fn body(&self) -> &Self::Body;
}

/// Says which member of an object is its body.
#[macro_export]
macro_rules! embeds {
    ($object:ty { $member:ident: $body:ty }) => {
        // SAFETY: The macro takes the member's own offset, and `body` compiles only for a member of that type.
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

/// The body of an object, for C; from it [`object_of`] comes back to the object, of which the pointer is to be made.
#[inline]
fn body_of<T: Embeds>(object: *const T) -> *mut CBody<T> {
    object.wrapping_byte_add(T::OFFSET).cast_mut().cast()
}

/// The pointer that C has of an object.
#[inline]
pub fn c_pointer<T: Embeds>(object: &Arc<T>) -> *mut CBody<T> {
    body_of(Arc::as_ptr(object))
}

/// The object whose body is at `raw`.
#[inline]
fn object_of<T: Embeds>(raw: *mut CBody<T>) -> *const T {
    raw.wrapping_byte_sub(T::OFFSET).cast()
}

/// An object of which C lends a pointer during a call.
pub struct Borrowed<'a, T: Embeds>(ArcBorrow<'a, T>);

impl<T: Embeds> core::ops::Deref for Borrowed<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Embeds> Borrowed<'_, T> {
    /// A reference of one's own.
    #[inline]
    pub fn hold(&self) -> Arc<T> {
        self.0.into()
    }
}

// SAFETY: A lender passes a pointer to the body of a live object, which is inside of an `Arc`.
unsafe impl<T: Embeds> FromC for Borrowed<'_, T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements C has a reference, and does not give it up during the call.
        Self(unsafe { ArcBorrow::from_raw(object_of(raw)) })
    }
}

/// An object of which C lends a pointer during a call, or null.
pub struct MaybeBorrowed<'a, T: Embeds>(pub Option<Borrowed<'a, T>>);

// SAFETY: As above; null is no object.
unsafe impl<T: Embeds> FromC for MaybeBorrowed<'_, T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self((!raw.is_null()).then(|| unsafe { Borrowed::from_c(raw) }))
    }
}

/// C's reference to an object, which it gives up by a call.
pub struct Given<T: Embeds>(pub Arc<T>);

// SAFETY: The header says that the function takes the object over.
unsafe impl<T: Embeds> FromC for Given<T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: C's reference was made by `MadeForC`, and C gives it up.
        Self(unsafe { Arc::from_raw(object_of(raw)) })
    }
}

/// A new object for C, with a reference to it, or an errno (`ERR_PTR`).
pub struct MadeForC<T: Embeds>(pub Result<Arc<T>>);

impl<T: Embeds> IntoC for MadeForC<T> {
    type Raw = *mut CBody<T>;

    #[inline]
    fn into_c(self) -> Self::Raw {
        match self.0 {
            // The reference is C's, until it comes back as `Given`.
            Ok(object) => body_of(Arc::into_raw(object)),
            Err(error) => error.to_ptr(),
        }
    }
}
