// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_DMAH`: DMA handles, with TPH hints.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma::{
    core::{dm::DmaHints, AttrBundle, Dmah},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    destroy, dm,
    table::{Access, Attr, Definition, EnumElement, IdrType, Method, Object, Size},
};

use super::attrs::optional;

/// A processing hint of PCI Express has two bits.
const HINT: u8 = 0b11;

/// `enum tph_mem_type`: volatile memory, persistent memory. User space sends the ID only.
static MEMORY_TYPES: [EnumElement; 2] = [
    EnumElement::ptr_in(Size::NONE),
    EnumElement::ptr_in(Size::NONE),
];

fn alloc(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let object = command.new_object::<Dmah>(c::UVERBS_ATTR_ALLOC_DMAH_HANDLE)?;
    let cpu = optional(command.structure(c::UVERBS_ATTR_ALLOC_DMAH_CPU_ID))?;
    cpu.map_or(Ok(()), dm::check_cpu)?;
    let memory = optional(command.choice(c::UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE))?;
    let hint = optional(command.structure(c::UVERBS_ATTR_ALLOC_DMAH_PH))?;
    if hint.is_some_and(|hint: u8| hint & !HINT != 0) {
        return Err(EINVAL);
    }
    let hints = DmaHints {
        cpu,
        memory: memory.map(Into::into),
        hint,
    };
    let dmah = dm::alloc_dmah(command, object.link(), hints, sleep)?;
    object.complete(dmah);
    Ok(())
}

static TYPE: IdrType = IdrType::new::<Dmah, _>(destroy::dmah);

static ALLOC: Method = Method::new(
    c::UVERBS_METHOD_DMAH_ALLOC,
    alloc,
    &[
        &Attr::idr(
            c::UVERBS_ATTR_ALLOC_DMAH_HANDLE,
            c::UVERBS_OBJECT_DMAH,
            Access::New,
        )
        .mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_ALLOC_DMAH_CPU_ID, Size::of::<u32>()),
        &Attr::enum_in(c::UVERBS_ATTR_ALLOC_DMAH_TPH_MEM_TYPE, &MEMORY_TYPES),
        &Attr::ptr_in(c::UVERBS_ATTR_ALLOC_DMAH_PH, Size::of::<u8>()),
    ],
);

static FREE: Method = Method::destroy(
    c::UVERBS_METHOD_DMAH_FREE,
    &[&Attr::destroyed(
        c::UVERBS_ATTR_FREE_DMA_HANDLE,
        c::UVERBS_OBJECT_DMAH,
    )],
);

static OBJECT: Object = Object::idr(c::UVERBS_OBJECT_DMAH, &TYPE, &[&ALLOC, &FREE]);

pub(crate) static DEFINITIONS: [Definition; 4] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_dmah)),
    Definition::object_needs(offset_of!(ib_device_ops, alloc_dmah)),
    Definition::END,
];
