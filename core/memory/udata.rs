// SPDX-License-Identifier: GPL-2.0

//! Access of drivers to their data and to the attributes in commands of user space.
//!
//! All functions run in process context during a command, whose structures are not shared.
//!
//! C header: `include/rdma/uverbs_ioctl.h`.

use kernel::{ffi::c_void, prelude::*};
use kernel_ext::{
    bindings::{self as c, gfp_t, ib_ucontext, ib_udata, ib_uverbs_buffer_desc},
    entry::{BytesIn, BytesOut, Const, ErrPtr, Out},
    error::EOPNOTSUPP,
    export::export,
};
use rdma::core::{
    command::{Gfp, MaybeValue, UverbsFile},
    object::UdataView,
    AttrBundle,
};

/// Reads a flags attribute of 4 or 8 bytes; 0 if it is missing.
///
/// # Errors
///
/// `EINVAL` for flags that are not allowed, or an invalid length.
fn flags(command: &AttrBundle, id: usize, allowed: u64) -> Result<u64> {
    command.data(id).map_or(Ok(0), |attr| attr.flags(allowed))
}

/// Reads a buffer descriptor.
///
/// # Errors
///
/// `ENOENT` if it is missing, `EINVAL` for unknown flags, `EFAULT`.
pub(crate) fn buffer_desc(command: &AttrBundle, id: u16) -> Result<ib_uverbs_buffer_desc> {
    let mut desc = ib_uverbs_buffer_desc::zeroed();
    // SAFETY: The descriptor consists of numbers.
    unsafe { command.read_plain(id.into(), &mut desc)? };
    if desc.flags & !c::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK != 0 {
        return Err(EINVAL);
    }
    desc.optional_flags &= c::IB_UVERBS_BUFFER_DESC_OPTIONAL_FLAGS_KNOWN_MASK;
    Ok(desc)
}

/// Reports bits in `comp_mask` that the driver does not know.
///
/// # Errors
///
/// Always `EOPNOTSUPP`.
#[export]
fn _ib_copy_validate_udata_cm_fail(_udata: &UdataView, _req_cm: u64, _valid_cm: u64) -> Result {
    Err(EOPNOTSUPP)
}

/// Reads a flags attribute of up to 64 bits.
///
/// # Errors
///
/// `EINVAL`.
#[export]
fn uverbs_get_flags64(
    to: Out<'_, u64>,
    attrs_bundle: Const<'_, AttrBundle>,
    idx: usize,
    allowed_bits: u64,
) -> Result {
    to.set(flags(&attrs_bundle, idx, allowed_bits)?);
    Ok(())
}

/// Reads a flags attribute of up to 32 bits.
///
/// # Errors
///
/// `EINVAL`.
#[export]
fn uverbs_get_flags32(
    to: Out<'_, u32>,
    attrs_bundle: Const<'_, AttrBundle>,
    idx: usize,
    allowed_bits: u64,
) -> Result {
    to.set(u32::try_from(flags(&attrs_bundle, idx, allowed_bits)?)?);
    Ok(())
}

/// Reads an unsigned constant up to a maximum; the default if it is missing.
///
/// # Errors
///
/// `EINVAL` beyond the maximum, `ENOENT` if it is missing without a default.
#[export]
fn _uverbs_get_const_unsigned(
    to: Out<'_, u64>,
    attrs_bundle: Const<'_, AttrBundle>,
    idx: usize,
    upper_bound: u64,
    def_val: MaybeValue<u64>,
) -> Result {
    let sent = attrs_bundle.data(idx).map(|attr| attr.word());
    let value = sent.or(def_val.0).ok_or(ENOENT)?;
    to.set(value);
    if value > upper_bound {
        return Err(EINVAL);
    }
    Ok(())
}

/// Reads a signed constant between bounds; the default if it is missing.
///
/// # Errors
///
/// `EINVAL` beyond the bounds, `ENOENT` if it is missing without a default.
#[export]
fn _uverbs_get_const_signed(
    to: Out<'_, i64>,
    attrs_bundle: Const<'_, AttrBundle>,
    idx: usize,
    lower_bound: i64,
    upper_bound: u64,
    def_val: MaybeValue<i64>,
) -> Result {
    let sent = attrs_bundle.data(idx).map(|attr| attr.word() as i64);
    let value = sent.or(def_val.0).ok_or(ENOENT)?;
    to.set(value);
    if value < lower_bound || u64::try_from(value).is_ok_and(|value| value > upper_bound) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Reads a buffer descriptor.
///
/// # Errors
///
/// `ENOENT`, `EINVAL`, `EFAULT`.
#[export]
fn uverbs_get_buffer_desc(
    attrs_bundle: Const<'_, AttrBundle>,
    attr_id: u16,
    desc: Out<'_, ib_uverbs_buffer_desc>,
) -> Result {
    desc.set(buffer_desc(&attrs_bundle, attr_id)?);
    Ok(())
}

/// Allocates memory that is freed at the end of the command.
///
/// # Errors
///
/// `ENOMEM`, `EOVERFLOW`.
#[export]
fn _uverbs_alloc(bundle: &AttrBundle, size: usize, flags: gfp_t) -> ErrPtr<c_void> {
    ErrPtr(bundle.alloc(size, Gfp(flags)))
}

/// Marks the object of an attribute as complete: if the command fails, it is destroyed.
#[export]
fn uverbs_finalize_uobj_create(attrs_bundle: Const<'_, AttrBundle>, idx: u16) {
    attrs_bundle.set_object_complete(idx);
}

/// The handler of destroy methods, whose object is destroyed before the call.
#[export]
fn uverbs_destroy_def_handler(_attrs: &AttrBundle) -> Result {
    Ok(())
}

/// Returns the driver's data with its input cleared, for a destroy method that is called on an error path.
#[export(GPL, ns = "rdma_core")]
fn uverbs_get_cleared_udata(attrs: &AttrBundle) -> *mut ib_udata {
    attrs.clear_driver_udata().as_raw()
}

/// The user context of a device file. The caller holds `disassociate_srcu` as long as it uses the context.
///
/// # Errors
///
/// `EIO` if the device was removed, `EINVAL` if there is no context yet.
#[export]
fn ib_uverbs_get_ucontext_file(ufile: &UverbsFile) -> ErrPtr<ib_ucontext> {
    let ucontext = ufile.ucontext();
    if !ufile.has_device() {
        return ErrPtr(Err(EIO));
    }
    if ucontext.is_null() {
        return ErrPtr(Err(EINVAL));
    }
    ErrPtr(Ok(ucontext))
}

/// Copies a driver's request of at least `minimum_size` bytes; missing bytes are zero.
///
/// # Errors
///
/// `EINVAL` if it is shorter, `EOPNOTSUPP` if it has non-zero bytes beyond the room, `EFAULT`.
#[export]
fn _ib_copy_validate_udata_in(
    udata: &UdataView,
    room: BytesOut<'_>,
    minimum_size: usize,
) -> Result {
    if udata.inlen() < minimum_size {
        return Err(EINVAL);
    }
    let read = udata.read(&room);
    read.map_err(|error| if error == E2BIG { EOPNOTSUPP } else { error })
}

/// Copies a driver's response, truncated or zero-filled to the length of user space's buffer.
///
/// # Errors
///
/// `EFAULT`.
#[export]
fn _ib_respond_udata(udata: &UdataView, response: BytesIn<'_>) -> Result {
    udata.respond(response)
}

/// Copies to an attribute, up to its length.
///
/// # Errors
///
/// `ENOENT` if the attribute is missing, `EFAULT`.
#[export]
fn uverbs_copy_to(attrs_bundle: Const<'_, AttrBundle>, idx: usize, from: BytesIn<'_>) -> Result {
    attrs_bundle.data(idx).ok_or(ENOENT)?.write(from)
}

/// Copies to an attribute, up to its length, and clears the rest.
///
/// # Errors
///
/// `ENOENT` if the attribute is missing, `EFAULT`.
#[export]
fn uverbs_copy_to_struct_or_zero(
    bundle: Const<'_, AttrBundle>,
    idx: usize,
    from: BytesIn<'_>,
) -> Result {
    let attr = bundle.data(idx).ok_or(ENOENT)?;
    attr.clear_after(from.len())?;
    attr.write(from)
}
