// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_MR`: memory regions.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self as c, ib_device_ops, ib_sge, ib_uverbs_sge},
    error::EOPNOTSUPP,
};
use rdma::{
    core::{object::Owned, AttrBundle, Dm, Dmah, Mr, Pd},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    destroy,
    mr::{self, Range, ACCESS_SUPPORTED},
    new::NewObject,
    table::{Access, Attr, Definition, IdrType, Method, Object, Size},
};

use super::attrs::optional;

/// The access flags that a region of a DMA buffer may have: bits of `enum ib_access_flags`.
const DMABUF_ACCESS: u32 = c::IB_ACCESS_LOCAL_WRITE
    | c::IB_ACCESS_REMOTE_READ
    | c::IB_ACCESS_REMOTE_WRITE
    | c::IB_ACCESS_REMOTE_ATOMIC
    | c::IB_ACCESS_RELAXED_ORDERING;

/// Completes an object with its region, and writes the keys to user space.
fn complete(
    command: &AttrBundle,
    object: NewObject<'_, Mr>,
    mr: Owned<Mr>,
    (lkey_id, rkey_id): (u32, u32),
) -> Result {
    let (lkey, rkey) = (mr.lkey(), mr.rkey());
    object.complete(mr);
    command.put(lkey_id, &lkey)?;
    command.put(rkey_id, &rkey)
}

/// The access flags that user space sent, of those that are allowed.
fn access_of(command: &AttrBundle, id: u32, allowed: u32, pd: &Pd) -> Result<u32> {
    let access = command.flags(id, allowed.into())? as u32;
    mr::check_access(pd.device(), access)?;
    Ok(access)
}

/// The ranges that user space sent: an array of `struct ib_uverbs_sge`.
fn pieces(bytes: &[u8]) -> Result<KVec<ib_sge>> {
    let mut pieces = KVec::new();
    for piece in bytes.chunks_exact(size_of::<ib_uverbs_sge>()) {
        let number = |at| {
            let bytes = piece.get(at..).and_then(<[u8]>::first_chunk);
            bytes.copied().map_or(0, u32::from_ne_bytes)
        };
        let addr = piece.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let piece = ib_sge {
            addr,
            length: number(offset_of!(ib_uverbs_sge, length)),
            lkey: number(offset_of!(ib_uverbs_sge, lkey)),
        };
        pieces.push(piece, GFP_KERNEL)?;
    }
    Ok(pieces)
}

fn advise(command: &AttrBundle, sleep: &MaySleep) -> Result {
    const FLAGS: u64 = c::IB_UVERBS_ADVISE_MR_FLAG_FLUSH as u64;
    const LIST: u32 = c::UVERBS_ATTR_ADVISE_MR_SGE_LIST;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_ADVISE_MR_PD_HANDLE)?;
    if !pd.has_advise_mr() {
        return Err(EOPNOTSUPP);
    }
    let advice = command.number(c::UVERBS_ATTR_ADVISE_MR_ADVICE)?;
    let flags = command.flags(c::UVERBS_ATTR_ADVISE_MR_FLAGS, FLAGS)? as u32;
    command.array_len(LIST, size_of::<ib_uverbs_sge>())?;
    let mut pieces = pieces(command.bytes(LIST)?)?;
    if pieces.is_empty() {
        return Ok(());
    }
    mr::advise(command, pd, advice, flags, &mut pieces, sleep)
}

fn reg_dm(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Mr>(c::UVERBS_ATTR_REG_DM_MR_HANDLE)?;
    let dm = command.object::<Dm>(c::UVERBS_ATTR_REG_DM_MR_DM_HANDLE)?;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_REG_DM_MR_PD_HANDLE)?;
    if !pd.device().has_reg_dm() {
        return Err(EOPNOTSUPP);
    }
    let offset = command.structure(c::UVERBS_ATTR_REG_DM_MR_OFFSET)?;
    let length = command.structure(c::UVERBS_ATTR_REG_DM_MR_LENGTH)?;
    let id = c::UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS;
    let access = command.flags(id, ACCESS_SUPPORTED.into())? as u32;
    if access & c::IB_ZERO_BASED == 0 {
        return Err(EINVAL);
    }
    mr::check_access(pd.device(), access)?;
    let place = (offset, length);
    let mr = mr::reg_dm(command, object.link(), pd, dm, place, access, sleep)?;
    let keys = (
        c::UVERBS_ATTR_REG_DM_MR_RESP_LKEY,
        c::UVERBS_ATTR_REG_DM_MR_RESP_RKEY,
    );
    complete(command, object, mr, keys)
}

fn query(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let mr = command.object::<Mr>(c::UVERBS_ATTR_QUERY_MR_HANDLE)?;
    let (iova, length) = mr.range();
    command.put(c::UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr.lkey())?;
    command.put(c::UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr.rkey())?;
    command.put(c::UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &length)?;
    command.put_if_wanted(c::UVERBS_ATTR_QUERY_MR_RESP_IOVA, &iova)
}

fn reg_dmabuf(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Mr>(c::UVERBS_ATTR_REG_DMABUF_MR_HANDLE)?;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE)?;
    if !pd.device().has_reg_dmabuf() {
        return Err(EOPNOTSUPP);
    }
    let range = Range {
        start: command.structure(c::UVERBS_ATTR_REG_DMABUF_MR_OFFSET)?,
        length: command.structure(c::UVERBS_ATTR_REG_DMABUF_MR_LENGTH)?,
        iova: command.structure(c::UVERBS_ATTR_REG_DMABUF_MR_IOVA)?,
    };
    if !range.is_aligned() {
        return Err(EINVAL);
    }
    let fd: u32 = command.structure(c::UVERBS_ATTR_REG_DMABUF_MR_FD)?;
    let id = c::UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS;
    let access = access_of(command, id, DMABUF_ACCESS, pd)?;
    let buffer = (fd as i32, range);
    let mr = mr::reg_dmabuf(command, object.link(), pd, buffer, access, None, sleep)?;
    let keys = (
        c::UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY,
        c::UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY,
    );
    complete(command, object, mr, keys)
}

/// The memory to be registered: that of the process, or a DMA buffer.
fn source_of(command: &AttrBundle, pd: &Pd) -> Result<(Option<i32>, Range)> {
    let iova = command.structure(c::UVERBS_ATTR_REG_MR_IOVA)?;
    let length = command.structure(c::UVERBS_ATTR_REG_MR_LENGTH)?;
    let address = optional(command.structure(c::UVERBS_ATTR_REG_MR_ADDR))?;
    let offset = optional(command.structure(c::UVERBS_ATTR_REG_MR_FD_OFFSET))?;
    let fd = optional(command.raw_fd(c::UVERBS_ATTR_REG_MR_FD))?;
    if fd.is_some() && !pd.device().has_reg_dmabuf() {
        return Err(EOPNOTSUPP);
    }
    let start = match (fd, address, offset) {
        (Some(_), None, Some(offset)) => offset,
        (None, Some(address), None) => address,
        _ => return Err(EINVAL),
    };
    let range = Range {
        start,
        length,
        iova,
    };
    if !range.is_aligned() {
        return Err(EINVAL);
    }
    Ok((fd, range))
}

fn reg(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Mr>(c::UVERBS_ATTR_REG_MR_HANDLE)?;
    let pd = command.object::<Pd>(c::UVERBS_ATTR_REG_MR_PD_HANDLE)?;
    let (fd, range) = source_of(command, pd)?;
    let dmah = optional(command.object::<Dmah>(c::UVERBS_ATTR_REG_MR_DMA_HANDLE))?;
    let allowed = fd.map_or(ACCESS_SUPPORTED, |_| DMABUF_ACCESS);
    let access = access_of(command, c::UVERBS_ATTR_REG_MR_ACCESS_FLAGS, allowed, pd)?;
    let uobject = object.link();
    let mr = match fd {
        Some(fd) => mr::reg_dmabuf(command, uobject, pd, (fd, range), access, dmah, sleep)?,
        None => mr::reg_user(command, uobject, pd, range, access, dmah, sleep)?,
    };
    let keys = (
        c::UVERBS_ATTR_REG_MR_RESP_LKEY,
        c::UVERBS_ATTR_REG_MR_RESP_RKEY,
    );
    complete(command, object, mr, keys)
}

static TYPE: IdrType = IdrType::new::<Mr, _>(destroy::mr);

static ADVISE: Method = Method::new(
    c::UVERBS_METHOD_ADVISE_MR,
    advise,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_ADVISE_MR_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_ADVISE_MR_ADVICE).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_ADVISE_MR_FLAGS).mandatory(),
        &Attr::ptr_in(
            c::UVERBS_ATTR_ADVISE_MR_SGE_LIST,
            Size::at_least(size_of::<ib_uverbs_sge>()),
        )
        .mandatory()
        .alloc_and_copy(),
    ],
);

static QUERY: Method = Method::new(
    c::UVERBS_METHOD_QUERY_MR,
    query,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_QUERY_MR_HANDLE,
            c::UVERBS_OBJECT_MR,
            Access::Read,
        )
        .mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_MR_RESP_RKEY, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_MR_RESP_LKEY, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_MR_RESP_LENGTH, Size::of::<u64>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_MR_RESP_IOVA, Size::of::<u64>()),
    ],
);

static REG_DM: Method = Method::new(
    c::UVERBS_METHOD_DM_MR_REG,
    reg_dm,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_REG_DM_MR_HANDLE,
            c::UVERBS_OBJECT_MR,
            Access::New,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DM_MR_OFFSET, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DM_MR_LENGTH, Size::of::<u64>()).mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_REG_DM_MR_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS),
        &Attr::idr(
            c::UVERBS_ATTR_REG_DM_MR_DM_HANDLE,
            c::UVERBS_OBJECT_DM,
            Access::Read,
        )
        .mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_DM_MR_RESP_LKEY, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_DM_MR_RESP_RKEY, Size::of::<u32>()).mandatory(),
    ],
);

static REG_DMABUF: Method = Method::new(
    c::UVERBS_METHOD_REG_DMABUF_MR,
    reg_dmabuf,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
            c::UVERBS_OBJECT_MR,
            Access::New,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DMABUF_MR_OFFSET, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DMABUF_MR_LENGTH, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DMABUF_MR_IOVA, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_DMABUF_MR_FD, Size::of::<u32>()).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, Size::of::<u32>()).mandatory(),
    ],
);

static REG: Method = Method::new(
    c::UVERBS_METHOD_REG_MR,
    reg,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_REG_MR_HANDLE,
            c::UVERBS_OBJECT_MR,
            Access::New,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_REG_MR_PD_HANDLE,
            c::UVERBS_OBJECT_PD,
            Access::Read,
        )
        .mandatory(),
        &Attr::idr(
            c::UVERBS_ATTR_REG_MR_DMA_HANDLE,
            c::UVERBS_OBJECT_DMAH,
            Access::Read,
        ),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_MR_IOVA, Size::of::<u64>()).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_MR_LENGTH, Size::of::<u64>()).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_REG_MR_ACCESS_FLAGS).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_MR_ADDR, Size::of::<u64>()),
        &Attr::ptr_in(c::UVERBS_ATTR_REG_MR_FD_OFFSET, Size::of::<u64>()),
        &Attr::raw_fd(c::UVERBS_ATTR_REG_MR_FD),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_MR_RESP_LKEY, Size::of::<u32>()).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_REG_MR_RESP_RKEY, Size::of::<u32>()).mandatory(),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static DESTROY: Method = Method::destroy(
    c::UVERBS_METHOD_MR_DESTROY,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_DESTROY_MR_HANDLE,
        c::UVERBS_OBJECT_MR,
    )],
);

static OBJECT: Object = Object::idr(
    c::UVERBS_OBJECT_MR,
    &TYPE,
    &[&ADVISE, &REG_DM, &DESTROY, &QUERY, &REG_DMABUF, &REG],
);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dereg_mr)),
    Definition::END,
];
