// SPDX-License-Identifier: GPL-2.0

//! Requests and responses of write commands.
//!
//! A command is a function from a typed request to a typed response:
//!
//! ```text
//! fn dealloc(call: &Call<'_>, request: ib_uverbs_dealloc_pd) -> Result { … }
//! static DEFINITIONS: [Definition; 2] = [command(IB_USER_VERBS_CMD_DEALLOC_PD, dealloc), Definition::END];
//! ```
//!
//! The request is read once, before the function, and the response is written after it. A request may be shorter than
//! the structure (the rest is zero) or longer (the rest must be zero); a response is truncated, or followed by zeros.
//! A command whose request has a variable length reads it itself: [`custom`], [`Call::head`].
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use core::{marker::PhantomData, mem::MaybeUninit};

use kernel::{error::to_result, ffi::c_void, prelude::*, uaccess::UserPtr};
use kernel_ext::{entry::BytesIn, error::EOPNOTSUPP};
use rdma::{
    core::{object::UdataView, AttrBundle, Device, Ucontext},
    MaySleep,
};
use rdma_bindings::{self as c, ib_udata};

use crate::{
    attrs::Attributes,
    table::{Definition, Handler, WriteSizes},
};

/// A structure of the ABI. A flexible array at its end is no part of the value.
///
/// # Safety
///
/// Any bytes are a valid value, and there is no padding.
pub unsafe trait Record {}

macro_rules! records {
    ($($ty:ident)*) => {$(
        // SAFETY: The structure consists of numbers without padding, as an ABI for both word sizes demands.
        unsafe impl Record for c::$ty {}
    )*};
}

records! {
    ib_uverbs_get_context ib_uverbs_get_context_resp ib_uverbs_query_device ib_uverbs_query_device_resp
    ib_uverbs_ex_query_device ib_uverbs_ex_query_device_resp ib_uverbs_query_port ib_uverbs_query_port_resp
    ib_uverbs_alloc_pd ib_uverbs_alloc_pd_resp ib_uverbs_dealloc_pd
    ib_uverbs_open_xrcd ib_uverbs_open_xrcd_resp ib_uverbs_close_xrcd
    ib_uverbs_reg_mr ib_uverbs_reg_mr_resp ib_uverbs_rereg_mr ib_uverbs_rereg_mr_resp ib_uverbs_dereg_mr
    ib_uverbs_alloc_mw ib_uverbs_alloc_mw_resp ib_uverbs_dealloc_mw
    ib_uverbs_create_comp_channel ib_uverbs_create_comp_channel_resp
    ib_uverbs_create_cq ib_uverbs_create_cq_resp ib_uverbs_ex_create_cq ib_uverbs_ex_create_cq_resp
    ib_uverbs_resize_cq ib_uverbs_resize_cq_resp ib_uverbs_poll_cq ib_uverbs_poll_cq_resp ib_uverbs_wc
    ib_uverbs_req_notify_cq ib_uverbs_destroy_cq ib_uverbs_destroy_cq_resp ib_uverbs_ex_modify_cq
    ib_uverbs_create_qp ib_uverbs_create_qp_resp ib_uverbs_ex_create_qp ib_uverbs_ex_create_qp_resp
    ib_uverbs_open_qp ib_uverbs_query_qp ib_uverbs_query_qp_resp
    ib_uverbs_modify_qp ib_uverbs_ex_modify_qp ib_uverbs_ex_modify_qp_resp
    ib_uverbs_destroy_qp ib_uverbs_destroy_qp_resp ib_uverbs_attach_mcast ib_uverbs_detach_mcast
    ib_uverbs_post_send ib_uverbs_post_send_resp ib_uverbs_send_wr
    ib_uverbs_post_recv ib_uverbs_post_recv_resp ib_uverbs_recv_wr
    ib_uverbs_post_srq_recv ib_uverbs_post_srq_recv_resp ib_sge
    ib_uverbs_create_ah ib_uverbs_create_ah_resp ib_uverbs_destroy_ah
    ib_uverbs_create_flow ib_uverbs_create_flow_resp ib_uverbs_destroy_flow
    ib_uverbs_create_srq ib_uverbs_create_srq_resp ib_uverbs_create_xsrq ib_uverbs_modify_srq
    ib_uverbs_query_srq ib_uverbs_query_srq_resp ib_uverbs_destroy_srq ib_uverbs_destroy_srq_resp
    ib_uverbs_ex_create_wq ib_uverbs_ex_create_wq_resp ib_uverbs_ex_modify_wq
    ib_uverbs_ex_destroy_wq ib_uverbs_ex_destroy_wq_resp
    ib_uverbs_ex_create_rwq_ind_table ib_uverbs_ex_create_rwq_ind_table_resp
    ib_uverbs_ex_destroy_rwq_ind_table
    ib_uverbs_cmd_hdr ib_uverbs_ex_cmd_hdr
}
// SAFETY: The type is a number.
unsafe impl Record for u8 {}
// SAFETY: The type is a number.
unsafe impl Record for u32 {}
// SAFETY: The type is a number.
unsafe impl Record for u64 {}
// SAFETY: The type has no bytes.
unsafe impl Record for () {}

/// A zeroed structure.
pub fn zeroed<T: Record>() -> T {
    // SAFETY: Any bytes are a valid value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// A command that is running, in process context.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The command.
    pub command: &'a AttrBundle,
    /// The token of the command's context.
    pub sleep: &'a MaySleep,
}

impl<'a> Call<'a> {
    /// The driver's part of the request and the response.
    #[inline]
    pub fn udata(&self) -> &'a UdataView {
        self.command.driver_udata()
    }

    /// The device of the command's context, which is set when an object is begun or looked up.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not set.
    pub fn device(&self) -> Result<&'a Device> {
        self.command.context_device().ok_or(EINVAL)
    }

    fn core(&self) -> ib_udata {
        // SAFETY: The member is plain, and constant during the command.
        unsafe {
            (&raw const (*self.command.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .ucore)
                .read()
        }
    }

    /// Reads the request.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is longer than the structure and the rest is not zero; `EFAULT`.
    pub fn request<Q: Record>(&self) -> Result<Q> {
        let core = self.core();
        let mut request = MaybeUninit::<Q>::zeroed();
        // SAFETY: `request` is valid for writes; the function checks the user address.
        let ret = unsafe {
            let to = request.as_mut_ptr().cast();
            c::copy_struct_from_user(to, size_of::<Q>(), core.inbuf, core.inlen)
        };
        to_result(ret).map_err(|error| if error == E2BIG { EOPNOTSUPP } else { error })?;
        // SAFETY: Any bytes are a request, and all were written.
        Ok(unsafe { request.assume_init() })
    }

    /// Reads the first structure of a request of variable length. Returns it and the rest.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if it is too short, `EFAULT`.
    pub fn head<Q: Record>(&self) -> Result<(Q, Tail<'a>)> {
        let core = self.core();
        let mut tail = Tail(Bytes::at(core.inbuf, core.inlen));
        let head = tail.take(size_of::<Q>())?.get(0)?;
        Ok((head, tail))
    }

    /// Writes the response.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn respond<R: Record>(&self, response: &R) -> Result {
        let (from, len) = (BytesIn::of(core::slice::from_ref(response)), size_of::<R>());
        if let Some(attr) = self.command.data(c::UVERBS_ATTR_CORE_OUT as usize) {
            attr.clear_after(len)?;
            return attr.write(from);
        }
        let core = self.core();
        let copied = len.min(core.outlen);
        // SAFETY: The value is valid for reads of its size; the function checks the user address.
        whole(unsafe { c::_copy_to_user(core.outbuf, from.as_ptr(), copied) })?;
        let rest = core.outlen.wrapping_sub(copied);
        if rest == 0 {
            return Ok(());
        }
        // SAFETY: The function checks the user address.
        whole(unsafe { c::clear_user(core.outbuf.wrapping_byte_add(copied), rest) })
    }

    /// Writes `value` at an offset in the buffer for the response, whatever its length is.
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn put<R: Record>(&self, offset: usize, value: &R) -> Result {
        let to = self.core().outbuf.wrapping_byte_add(offset);
        let from = core::ptr::from_ref(value).cast();
        // SAFETY: The value is valid for reads of its size; the function checks the user address.
        whole(unsafe { c::_copy_to_user(to, from, size_of::<R>()) })
    }

    /// Marks the response as valid, after [`Self::put`].
    ///
    /// # Errors
    ///
    /// `EFAULT`.
    pub fn responded(&self) -> Result {
        match self.command.data(c::UVERBS_ATTR_CORE_OUT as usize) {
            Some(attr) => attr.mark_output(),
            None => Ok(()),
        }
    }

    /// The length of a response that fits into the buffer: `response_length` of extended commands.
    pub fn response_length<R: Record>(&self) -> u32 {
        self.core().outlen.min(size_of::<R>()) as u32
    }
}

/// The result of a copy to or from user space, from the number of bytes that were not copied.
fn whole(left: usize) -> Result {
    if left != 0 {
        return Err(EFAULT);
    }
    Ok(())
}

/// The part of a request that is not read yet.
pub struct Tail<'a>(Bytes<'a>);

impl<'a> Tail<'a> {
    /// The next `len` bytes.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there are fewer.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<Bytes<'a>> {
        let left = self.0.len.checked_sub(len).ok_or(ENOSPC)?;
        let bytes = Bytes::at(self.0.at, len);
        self.0 = Bytes::at(self.0.at.wrapping_byte_add(len), left);
        Ok(bytes)
    }

    /// The next `count` records of `size` bytes each.
    ///
    /// # Errors
    ///
    /// As for [`Self::take`].
    #[inline]
    pub fn take_records(&mut self, count: u32, size: usize) -> Result<Bytes<'a>> {
        let len = (count as usize).checked_mul(size).ok_or(ENOSPC)?;
        self.take(len)
    }

    /// Checks that the rest is zero.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if it is not, or cannot be read.
    #[inline]
    pub fn finish(self) -> Result {
        match self.0.len {
            0 => Ok(()),
            _ => self.check_zero(),
        }
    }

    #[cold]
    fn check_zero(self) -> Result {
        if self.0.len > usize::from(u16::MAX) {
            return Err(EOPNOTSUPP);
        }
        let rest = self.0.read_array::<u8>().map_err(|_| EOPNOTSUPP)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(EOPNOTSUPP);
        }
        Ok(())
    }
}

/// Bytes in user space.
pub struct Bytes<'a> {
    at: *const c_void,
    len: usize,
    _command: PhantomData<&'a AttrBundle>,
}

impl Bytes<'_> {
    /// Bytes at an address in the current process, which need not be valid.
    pub fn new(at: UserPtr, len: usize) -> Self {
        Self::at(at.as_const_ptr(), len)
    }

    fn at(at: *const c_void, len: usize) -> Self {
        Self {
            at,
            len,
            _command: PhantomData,
        }
    }

    /// Reads a structure at an offset.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it is not within the bytes, `EFAULT`.
    pub fn get<Q: Record>(&self, offset: usize) -> Result<Q> {
        let end = offset.checked_add(size_of::<Q>()).ok_or(EINVAL)?;
        if end > self.len {
            return Err(EINVAL);
        }
        let mut value = MaybeUninit::<Q>::uninit();
        let from = self.at.wrapping_byte_add(offset);
        // A copy of the length of a type needs no check of the kernel's memory at run time, as one of a constant length in C.
        // SAFETY: The memory is valid for writes; the function checks the user address.
        whole(unsafe { c::_copy_from_user(value.as_mut_ptr().cast(), from, size_of::<Q>()) })?;
        // SAFETY: Any bytes are a valid value, and all were written.
        Ok(unsafe { value.assume_init() })
    }

    /// Reads as many structures as there are.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EFAULT`.
    pub fn read_array<Q: Record>(&self) -> Result<KVec<Q>> {
        let count = self.len / size_of::<Q>().max(1);
        let mut array = KVec::<Q>::with_capacity(count, GFP_KERNEL)?;
        // SAFETY: The memory is valid for writes; the function checks the user address.
        whole(unsafe {
            c::copy_from_user(array.as_mut_ptr().cast(), self.at, count * size_of::<Q>())
        })?;
        // SAFETY: Any bytes are a valid value, and `count` values were written.
        unsafe { array.inc_len(count) };
        Ok(array)
    }
}

/// The handler of a command: reads the request, runs the command, writes the response.
const fn typed<Q, R, F>(run: F) -> impl Handler
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, Q) -> Result<R> + Copy + 'static,
{
    move |command: &AttrBundle, sleep: &MaySleep| {
        let call = Call { command, sleep };
        let response = run(&call, call.request()?)?;
        if size_of::<R>() == 0 {
            return Ok(());
        }
        call.respond(&response)
    }
}

/// As [`typed`], for a command that needs a context.
const fn typed_in_context<Q, R, F>(run: F) -> impl Handler
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, &Ucontext, Q) -> Result<R> + Copy + 'static,
{
    move |command: &AttrBundle, sleep: &MaySleep| {
        let call = Call { command, sleep };
        let response = run(&call, command.ucontext()?, call.request()?)?;
        call.respond(&response)
    }
}

const fn untyped<F>(run: F) -> impl Handler
where
    F: Fn(&Call<'_>) -> Result + Copy + 'static,
{
    move |command: &AttrBundle, sleep: &MaySleep| run(&Call { command, sleep })
}

const fn sizes<Q, R>(has_udata: bool) -> WriteSizes {
    assert!(size_of::<Q>() <= u8::MAX as usize && size_of::<R>() <= u8::MAX as usize);
    WriteSizes {
        request: size_of::<Q>() as u8,
        response: size_of::<R>() as u8,
        has_response: size_of::<R>() != 0,
        has_udata,
    }
}

/// A command without a part of the driver.
pub const fn command<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, Q) -> Result<R> + Copy + 'static,
{
    Definition::write(number, typed(run), sizes::<Q, R>(false))
}

/// A command that needs the file's context, and creates no object.
pub const fn query<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, &Ucontext, Q) -> Result<R> + Copy + 'static,
{
    Definition::write(number, typed_in_context(run), sizes::<Q, R>(false))
}

/// As [`query`], for an extended command.
pub const fn query_extended<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, &Ucontext, Q) -> Result<R> + Copy + 'static,
{
    Definition::write_ex(number, typed_in_context(run))
}

/// A command whose request and response are followed by those of the driver.
pub const fn command_with_udata<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, Q) -> Result<R> + Copy + 'static,
{
    Definition::write(number, typed(run), sizes::<Q, R>(true))
}

/// An extended command.
pub const fn extended<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record + 'static,
    R: Record + 'static,
    F: Fn(&Call<'_>, Q) -> Result<R> + Copy + 'static,
{
    Definition::write_ex(number, typed(run))
}

/// A command that reads the request and writes the response itself; they begin with a `Q` and an `R`.
pub const fn custom<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record,
    R: Record,
    F: Fn(&Call<'_>) -> Result + Copy + 'static,
{
    Definition::write(number, untyped(run), sizes::<Q, R>(false))
}

/// As [`custom`], for a command whose request and response are followed by those of the driver.
pub const fn custom_with_udata<Q, R, F>(number: u32, run: F) -> Definition
where
    Q: Record,
    R: Record,
    F: Fn(&Call<'_>) -> Result + Copy + 'static,
{
    Definition::write(number, untyped(run), sizes::<Q, R>(true))
}

/// An extended command that reads the request and writes the response itself.
pub const fn custom_extended<F>(number: u32, run: F) -> Definition
where
    F: Fn(&Call<'_>) -> Result + Copy + 'static,
{
    Definition::write_ex(number, untyped(run))
}
