// SPDX-License-Identifier: GPL-2.0

//! Memory of user space: pinned ([`pin`]), paged in on demand ([`odp`]), or a DMA buffer ([`dmabuf`]).
//!
//! C header: `include/rdma/ib_umem.h`.

mod dmabuf;
mod odp;
mod pin;

use kernel::{
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
};
use kernel_ext::{
    bindings::{self as c, ib_umem, ib_uverbs_buffer_desc},
    door::{ErrPtr, Input},
    export::export,
};
use rdma::{
    view::{
        command::MaybeCommand,
        umem::{AccessFlags, GivenUmem, OwnedUmem, UmemView},
        AttrBundle, Device,
    },
    MaySleep,
};

use crate::udata;

/// Gives a device the memory that a buffer's description is of.
///
/// # Errors
///
/// `EINVAL` for a description that nobody knows; as for the kind of memory.
fn of_desc(
    device: &Device,
    desc: &ib_uverbs_buffer_desc,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<OwnedUmem> {
    if desc.flags & !c::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK != 0 {
        return Err(EINVAL);
    }
    let at = usize::try_from(desc.addr).map_err(|_| EOVERFLOW)?;
    let len = usize::try_from(desc.length).map_err(|_| EOVERFLOW)?;
    match desc.type_ {
        c::IB_UVERBS_BUFFER_TYPE_DMABUF => {
            dmabuf::get_pinned(device, (at, len, desc.fd), access, sleep).map(OwnedUmem::Dmabuf)
        }
        c::IB_UVERBS_BUFFER_TYPE_VA => {
            pin::pin(device, at, len, access, sleep).map(OwnedUmem::Pinned)
        }
        _ => Err(EINVAL),
    }
}

/// As [`of_desc`], of at least `size` bytes.
fn of_desc_sized(
    device: &Device,
    desc: &ib_uverbs_buffer_desc,
    size: usize,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<OwnedUmem> {
    let umem = of_desc(device, desc, access, sleep)?;
    if umem.view().len() < size {
        return Err(EINVAL);
    }
    Ok(umem)
}

/// The description that the attribute `id` has, if there is one.
fn desc_of_attr(command: &AttrBundle, id: u16) -> Result<Option<ib_uverbs_buffer_desc>> {
    match udata::buffer_desc(command, id) {
        Err(error) if error == ENOENT => Ok(None),
        desc => desc.map(Some),
    }
}

/// The description that the older attributes of a completion queue's buffer make, if they are there: an address or a DMA
/// buffer with an offset, not both, each with a length; the driver must know of them.
fn desc_of_cq_attrs(command: &AttrBundle) -> Result<Option<ib_uverbs_buffer_desc>> {
    let has_va = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_VA);
    let has_fd = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_FD);
    let has_offset = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET);
    if !has_va && !has_fd {
        let stray = has_offset || command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH);
        return if stray { Err(EINVAL) } else { Ok(None) };
    }
    let mut desc = ib_uverbs_buffer_desc::zeroed();
    if has_va {
        desc.type_ = c::IB_UVERBS_BUFFER_TYPE_VA;
        command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_VA, &mut desc.addr)?;
    } else {
        desc.type_ = c::IB_UVERBS_BUFFER_TYPE_DMABUF;
        let fd = command
            .data(c::UVERBS_ATTR_CREATE_CQ_BUFFER_FD as usize)
            .ok_or(ENOENT)?;
        desc.fd = i32::try_from(fd.word() as i64)?;
        command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, &mut desc.addr)?;
    }
    command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, &mut desc.length)?;
    let knows = command
        .context_device()
        .is_some_and(|dev| dev.ops().create_user_cq.is_some());
    if !knows || (has_va && (has_fd || has_offset)) {
        return Err(EINVAL);
    }
    Ok(Some(desc))
}

/// The description of a completion queue's buffer: by one way or the other, not both.
fn desc_of_cq(command: &AttrBundle) -> Result<Option<ib_uverbs_buffer_desc>> {
    let attr = desc_of_attr(command, c::UVERBS_ATTR_CREATE_CQ_BUF_UMEM as u16)?;
    let older = desc_of_cq_attrs(command)?;
    if attr.is_some() && older.is_some() {
        return Err(EINVAL);
    }
    Ok(attr.or(older))
}

/// The description of `size` bytes at an address.
fn desc_of_va(addr: u64, size: usize) -> ib_uverbs_buffer_desc {
    ib_uverbs_buffer_desc {
        type_: c::IB_UVERBS_BUFFER_TYPE_VA,
        addr,
        length: size as u64,
        ..Zeroable::zeroed()
    }
}

/// Gives a device the memory that is described, of at least `size` bytes; none if there is no description.
fn described(
    device: &Device,
    desc: Result<Option<ib_uverbs_buffer_desc>>,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> Result<Option<OwnedUmem>> {
    let make = |desc| of_desc_sized(device, &desc, size, AccessFlags(access), sleep);
    desc.and_then(|desc| desc.map(make).transpose())
}

/// What C gets of memory that there may be.
fn optional(umem: Result<Option<OwnedUmem>>) -> ErrPtr<ib_umem> {
    ErrPtr(umem.map(|umem| umem.map_or(core::ptr::null_mut(), OwnedUmem::into_raw)))
}

/// Gives a device the memory that a description is of.
///
/// # Errors
///
/// `EINVAL`, `EOVERFLOW`, `EOPNOTSUPP`, `EPERM`, `ENOMEM`, `EFAULT`.
#[export]
fn ib_umem_get_desc(
    device: &Device,
    desc: Input<'_, ib_uverbs_buffer_desc>,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    ErrPtr(of_desc(device, &desc, AccessFlags(access), sleep).map(OwnedUmem::into_raw))
}

/// Gives a device the memory that an attribute describes, of at least `size` bytes; null if there is no attribute.
///
/// # Errors
///
/// As for `ib_umem_get_desc`; `EINVAL` for less memory.
#[export]
fn ib_umem_get_attr(
    device: &Device,
    attrs: MaybeCommand<'_>,
    attr_id: u16,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs
        .0
        .map_or(Ok(None), |attrs| desc_of_attr(attrs, attr_id));
    optional(described(device, desc, size, access, sleep))
}

/// As `ib_umem_get_attr`; if there is no attribute, `size` bytes at an address.
///
/// # Errors
///
/// As there.
#[export]
fn ib_umem_get_attr_or_va(
    device: &Device,
    attrs: MaybeCommand<'_>,
    attr_id: u16,
    addr: u64,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs
        .0
        .map_or(Ok(None), |attrs| desc_of_attr(attrs, attr_id));
    let desc = desc.map(|desc| Some(desc.unwrap_or_else(|| desc_of_va(addr, size))));
    optional(described(device, desc, size, access, sleep))
}

/// Gives a device the buffer of a completion queue, of at least `size` bytes; null if none is described.
///
/// # Errors
///
/// As for `ib_umem_get_attr`; `EINVAL` for one that is described twice.
#[export]
fn ib_umem_get_cq_buf(
    device: &Device,
    attrs: MaybeCommand<'_>,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs.0.map_or(Ok(None), desc_of_cq);
    optional(described(device, desc, size, access, sleep))
}

/// As `ib_umem_get_cq_buf`; if none is described, `size` bytes at an address.
///
/// # Errors
///
/// As there.
#[export]
fn ib_umem_get_cq_buf_or_va(
    device: &Device,
    attrs: MaybeCommand<'_>,
    addr: u64,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs.0.map_or(Ok(None), desc_of_cq);
    let desc = desc.map(|desc| Some(desc.unwrap_or_else(|| desc_of_va(addr, size))));
    optional(described(device, desc, size, access, sleep))
}

/// Releases memory that no device uses any more; null and errnos are nothing. Process context.
#[export]
fn ib_umem_release(umem: GivenUmem) {
    drop(umem);
}

/// Checks that memory will do for a region that is registered anew.
///
/// # Errors
///
/// `EACCES` for writing to memory that is pinned for reading.
#[export]
fn ib_umem_check_rereg(umem: Option<&UmemView>, flags: c_int, new_access_flags: c_int) -> Result {
    let changes = |flag: u32| flags as u32 & flag != 0;
    if !changes(c::IB_MR_REREG_ACCESS) || changes(c::IB_MR_REREG_TRANS) {
        return Ok(());
    }
    let writable = umem.is_none_or(UmemView::is_writable);
    if AccessFlags(new_access_flags).is_writable() && !writable {
        return Err(EACCES);
    }
    Ok(())
}

/// The largest page size of those in `pgsz_bitmap` in which memory can be given to a device that sees it at `virt`; 0 if none
/// will do.
///
/// An address and what the device sees it at must agree below the page size where a page begins: at the start of each piece
/// that does not follow on the one before.
#[export]
fn ib_umem_find_best_pgsz(umem: &UmemView, pgsz_bitmap: c_ulong, virt: u64) -> c_ulong {
    umem.set_iova(virt);
    if let Some(shift) = umem.odp_page_shift() {
        return pgsz_bitmap & 1usize.wrapping_shl(shift);
    }
    let Some(last) = (umem.len() as u64).wrapping_sub(1).checked_add(virt) else {
        return 0;
    };
    // Pages larger than the one that holds all of it are as good as that one.
    let bits = u64::BITS - (virt ^ last).leading_zeros();
    let mut mask = pgsz_bitmap as u64 & u64::MAX.checked_shl(bits.max(1)).unwrap_or(0);
    let mut va = virt;
    let mut skip = umem.offset() as u64;
    let mut end = None;
    for (nth, segment) in umem.segments().enumerate() {
        if end != Some(segment.address) {
            mask |= segment.address.wrapping_add(skip) ^ va;
            if nth != 0 {
                mask |= va;
            }
        }
        end = segment.address.checked_add(segment.len.into());
        va = va.wrapping_add(u64::from(segment.len).wrapping_sub(skip));
        skip = 0;
    }
    let fitting = match mask {
        0 => pgsz_bitmap,
        mask => pgsz_bitmap & usize::MAX.wrapping_shr(usize::BITS - 1 - mask.trailing_zeros()),
    };
    fitting.checked_ilog2().map_or(0, |log| 1 << log)
}

/// Copies from pinned memory.
///
/// # Errors
///
/// `EINVAL` for a range that the memory does not have.
///
/// # Safety
///
/// There is room for `length` bytes at `dst`, and `umem` is pinned memory.
#[export]
unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    let umem = unsafe { &*umem.cast::<UmemView>() };
    if offset > umem.len() || length > umem.len() - offset {
        return EINVAL.to_errno();
    }
    // SAFETY: By the safety requirements.
    let copied = unsafe { umem.copy_to(dst, length, offset) };
    if copied == length {
        0
    } else {
        EINVAL.to_errno()
    }
}
