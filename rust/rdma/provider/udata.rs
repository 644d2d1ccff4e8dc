// SPDX-License-Identifier: GPL-2.0

//! The part of a user command that is for the driver: `struct ib_udata`.
//!
//! The header has the rules for requests and responses of another length than the kernel's
//! structure. A request may be shorter (the rest is zero) or longer (the rest must be zero). A
//! response is truncated, or followed by zeros.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};

use kernel::{
    error::to_result,
    prelude::*,
    transmute::{AsBytes, FromBytes},
};
use rdma_bindings::{self as bindings, ib_udata};

use crate::{provider::data::ProviderData, Device, Ucontext};

/// The request and the response of a command, for the driver. It exists in process context only.
///
/// # Invariants
///
/// The structure is the driver's part of a command of user space on a device that [`Device::alloc`] made, valid for `'a`.
pub struct Udata<'a> {
    raw: NonNull<ib_udata>,
    /// Whether the user context of the command is complete.
    in_context: bool,
    _raw: PhantomData<&'a mut ib_udata>,
}

impl<'a> Udata<'a> {
    /// The data of a command; `None` for a client in the kernel.
    ///
    /// # Safety
    ///
    /// `raw` must be null, or the `driver_udata` of a `struct uverbs_attr_bundle` that is valid
    /// during `'a`, of a command on a device that [`Device::alloc`] made.
    #[inline]
    pub unsafe fn from_raw(raw: *mut ib_udata) -> Option<Self> {
        Some(Self {
            raw: NonNull::new(raw)?,
            in_context: true,
            _raw: PhantomData,
        })
    }

    /// The data of the command that creates a user context.
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
        // SAFETY: By the type invariants the structure is valid.
        unsafe { self.raw.as_ref().inlen }
    }

    /// The size of the response buffer in bytes.
    #[inline]
    pub fn outlen(&self) -> usize {
        // SAFETY: By the type invariants the structure is valid.
        unsafe { self.raw.as_ref().outlen }
    }

    /// Reads the request, of which user space must have sent at least the first `min_len` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is too short, `EOPNOTSUPP` if it is longer than `T` and the rest is not zero,
    /// `EFAULT`.
    pub fn read<T: FromBytes>(&self, min_len: usize) -> Result<T> {
        let mut request = MaybeUninit::<T>::zeroed();
        // SAFETY: By the type invariants; `request` is valid for writes of a `T`.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(
                self.raw.as_ptr(),
                request.as_mut_ptr().cast(),
                size_of::<T>(),
                min_len,
            )
        })?;
        // SAFETY: By `FromBytes` any bytes are a valid `T`, and all were written.
        Ok(unsafe { request.assume_init() })
    }

    /// Writes `response`, truncated to the response buffer.
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

    /// Writes `response` completely.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the response buffer is too small, `EFAULT`.
    pub fn respond_all<T: AsBytes>(&self, response: &T) -> Result {
        if self.outlen() < size_of::<T>() {
            return Err(EINVAL);
        }
        self.respond(response)
    }

    /// Checks that the request is empty, or consists of zeros.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it does not, `EFAULT`.
    pub fn no_request(&self) -> Result {
        if self.inlen() == 0 {
            return Ok(());
        }
        // SAFETY: By the type invariants; a length of 0 writes nothing.
        to_result(unsafe {
            bindings::_ib_copy_validate_udata_in(self.raw.as_ptr(), core::ptr::null_mut(), 0, 0)
        })
    }

    /// Zeroes the response buffer.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond_empty(&self) -> Result {
        // SAFETY: By the type invariants; a length of 0 reads nothing.
        to_result(unsafe { bindings::_ib_respond_udata(self.raw.as_ptr(), core::ptr::null(), 0) })
    }

    /// The user context of the command; `None` while the context is being created, and for a device of another type.
    pub fn context<P: ProviderData>(&self) -> Option<&'a Ucontext<P>> {
        if !self.in_context {
            return None;
        }
        // SAFETY: By the type invariants the structure is the driver's part of a command.
        let raw = unsafe { bindings::rdma_udata_to_ucontext(self.raw.as_ptr()) };
        if raw.is_null() {
            return None;
        }
        // SAFETY: The context is valid while the command runs. By the type invariants it is of a device that `Device::alloc`
        // made.
        let is_of_type = unsafe { Device::<P>::is(NonNull::new((*raw).device)?) };
        if !is_of_type {
            return None;
        }
        // SAFETY: The context is complete, and valid while the command runs; its device is of `P`.
        Some(unsafe { Ucontext::from_raw(raw) })
    }
}
