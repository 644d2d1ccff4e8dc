// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_DMABUF`: device memory exported as DMA buffers.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{core::AttrBundle, MaySleep};
use rdma_uverbs::{
    attrs::Attributes,
    dmabuf::Dmabufs,
    table::{Access, Attr, Definition, FdType, Method, Object, Size},
};

use crate::THIS_MODULE;

fn alloc(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Dmabufs>(c::UVERBS_ATTR_ALLOC_DMABUF_HANDLE)?;
    let page: i64 = command.structure(c::UVERBS_ATTR_ALLOC_DMABUF_PGOFF)?;
    object.export(page as isize, &THIS_MODULE, sleep)
}

static TYPE: FdType = FdType::without_operations::<Dmabufs>(c::O_RDONLY);

static ALLOC: Method = Method::new(
    c::UVERBS_METHOD_DMABUF_ALLOC,
    alloc,
    &[
        &Attr::fd(
            c::UVERBS_ATTR_ALLOC_DMABUF_HANDLE,
            c::UVERBS_OBJECT_DMABUF,
            Access::New,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_ALLOC_DMABUF_PGOFF, Size::of::<u64>()).mandatory(),
    ],
);

static OBJECT: Object = Object::fd(c::UVERBS_OBJECT_DMABUF, &TYPE, &[&ALLOC]);

pub(crate) static DEFINITIONS: [Definition; 4] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, mmap_get_pfns)),
    Definition::object_needs(offset_of!(ib_device_ops, pgoff_to_mmap_entry)),
    Definition::END,
];
