// SPDX-License-Identifier: GPL-2.0

//! The driver's part of a command of user space: `struct ib_udata`.
//!
//! The rules for requests and responses that grow with time stand in the header: a request may be
//! shorter than the kernel's structure (the rest is zero) or longer (the rest must be zero); a
//! response is cut off or filled with zeros.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};

use kernel::{
    error::to_result,
    prelude::*,
    transmute::{AsBytes, FromBytes},
};
use rdma_bindings::{self as bindings, ib_udata};

use crate::{provider::data::ProviderData, Ucontext};

/// Request and response of a command, as the driver has them. Only in process context.
///
/// # Invariants
///
/// The structure is the driver's part of a command of user space, valid for `'a`.
pub struct Udata<'a> {
    raw: NonNull<ib_udata>,
    /// Whether the command was given in a context that is complete.
    in_context: bool,
    _raw: PhantomData<&'a mut ib_udata>,
}

impl<'a> Udata<'a> {
    /// The data of a command; `None` if a client in the kernel is the caller.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or the `driver_udata` of a `struct uverbs_attr_bundle` that is valid
    /// during `'a`.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ib_udata) -> Option<Self> {
        Some(Self {
            raw: NonNull::new(raw)?,
            in_context: true,
            _raw: PhantomData,
        })
    }

    /// The data of the command that makes a user context.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`].
    #[inline]
    pub(crate) unsafe fn from_raw_no_context(raw: *mut ib_udata) -> Option<Self> {
        // SAFETY: By the safety requirements.
        let udata = unsafe { Self::from_raw(raw) }?;
        Some(Self {
            in_context: false,
            ..udata
        })
    }

    /// The length of the request in bytes.
    #[inline]
    pub fn inlen(&self) -> usize {
        // SAFETY: By the type invariants.
        unsafe { self.raw.as_ref().inlen }
    }

    /// The room for the response in bytes.
    #[inline]
    pub fn outlen(&self) -> usize {
        // SAFETY: By the type invariants.
        unsafe { self.raw.as_ref().outlen }
    }

    /// Reads the request, of which user space must send the first `min_len` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too short, `EOPNOTSUPP` if it is longer than `T` and not zero there,
    /// `EFAULT`.
    pub fn read<T: FromBytes>(&self, min_len: usize) -> Result<T> {
        let mut request = MaybeUninit::<T>::zeroed();
        // SAFETY: By the type invariants; `request` has room for a `T`.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                request.as_mut_ptr().cast(),
                size_of::<T>(),
                min_len,
            )
        })?;
        // SAFETY: Any bytes are a `T`, and all were written.
        Ok(unsafe { request.assume_init() })
    }

    /// Answers with `response`, as far as there is room.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond<T: AsBytes>(&self, response: &T) -> Result {
        // SAFETY: By the type invariants; `response` is valid for reads.
        to_result(unsafe {
            bindings::_ib_respond_udata(
                self.raw.as_ptr(),
                core::ptr::from_ref(response).cast(),
                size_of::<T>(),
            )
        })
    }

    /// Answers with `response`, for which there must be room.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is not, `EFAULT`.
    pub fn respond_all<T: AsBytes>(&self, response: &T) -> Result {
        if self.outlen() < size_of::<T>() {
            return Err(EINVAL);
        }
        self.respond(response)
    }

    /// Checks that there is no request, or only zeros.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if there is one, `EFAULT`.
    pub fn no_request(&self) -> Result {
        if self.inlen() == 0 {
            return Ok(());
        }
        // SAFETY: By the type invariants; nothing is written to a structure without length.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(self.raw.as_ptr(), core::ptr::null_mut(), 0, 0)
        })
    }

    /// Answers with zeros.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond_empty(&self) -> Result {
        // SAFETY: By the type invariants; nothing is read from a structure without length.
        to_result(unsafe { bindings::_ib_respond_udata(self.raw.as_ptr(), core::ptr::null(), 0) })
    }

    /// The user context that the command was given in; `None` while it is made.
    pub fn context<P: ProviderData>(&self) -> Option<&'a Ucontext<P>> {
        if !self.in_context {
            return None;
        }
        // SAFETY: By the type invariants.
        let raw = unsafe { bindings::rdma_udata_to_ucontext(self.raw.as_ptr()) };
        if raw.is_null() {
            return None;
        }
        // SAFETY: The context stays while a command runs, which comes after its creation; it is
        // one of the device that has handed over the data.
        Some(unsafe { Ucontext::from_raw(raw) })
    }
}
