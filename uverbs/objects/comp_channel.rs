// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_COMP_CHANNEL`: completion channels.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::mem::offset_of;

use kernel_ext::bindings::{self as c, ib_device_ops};
use rdma_uverbs::{
    event::CompletionChannel,
    table::{Definition, FdType, Object},
};

use crate::events;

static TYPE: FdType = FdType::new::<CompletionChannel, _>(
    events::detach_channel,
    &events::CHANNEL_OPS,
    c"[infinibandevent]",
    c::O_RDONLY,
);

static OBJECT: Object = Object::fd(c::UVERBS_OBJECT_COMP_CHANNEL, &TYPE, &[]);

pub(crate) static DEFINITIONS: [Definition; 3] = [
    Definition::tree(&OBJECT),
    Definition::object_needs(offset_of!(ib_device_ops, dealloc_pd)),
    Definition::END,
];
