// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_ASYNC_EVENT`: async event files.
//!
//! The first one of a device file is its default: objects without another one report to it.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::{core::AttrBundle, MaySleep};
use rdma_uverbs::{
    attrs::Attributes,
    event::{set_default_async, AsyncEvents},
    table::{Access, Attr, Definition, FdType, Method, Object},
};

use crate::events::{detach_async, release_async, ASYNC_OPS};

/// Creates a file.
fn alloc(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let new = command.new_object::<AsyncEvents>(c::UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE)?;
    set_default_async(command.file(), &new);
    new.start(sleep)
}

static TYPE: FdType = FdType::with_release::<AsyncEvents, _, _>(
    detach_async,
    release_async,
    &ASYNC_OPS,
    c"[infinibandevent]",
    c::O_RDONLY,
);

static ALLOC: Method = Method::new(
    c::UVERBS_METHOD_ASYNC_EVENT_ALLOC,
    alloc,
    &[&Attr::fd(
        c::UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE,
        c::UVERBS_OBJECT_ASYNC_EVENT,
        Access::New,
    )
    .mandatory()],
);

static ASYNC_EVENT: Object = Object::fd(c::UVERBS_OBJECT_ASYNC_EVENT, &TYPE, &[&ALLOC]);

/// The definitions of the class.
pub(super) static DEFINITIONS: [Definition; 2] = [Definition::tree(&ASYNC_EVENT), Definition::END];
