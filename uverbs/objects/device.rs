// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_DEVICE`: the context, queries of the device, and write commands through ioctl.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    error::{ENOMSG, EOPNOTSUPP},
    zeroed::zeroed,
};
use rdma::{
    core::{AttrBundle, Device},
    MaySleep,
};
use rdma_uverbs::{
    attrs::Attributes,
    bundle::fill_core_udata,
    context::{self, NewContext},
    definition::ObjectUse,
    lookup::Acquired,
    node::Node,
    query,
    request::Call,
    table::{structure, Attr, Definition, Method, Object, Size},
    verbs,
};

use crate::commands::device::port_response;

/// Runs a write command: its number, request and response are attributes.
fn invoke_write(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let number = command.number::<u32>(c::UVERBS_ATTR_WRITE_CMD)?;
    let method = Node::of(command.file()).api().write_method(number)?;
    let (request, response) =
        fill_core_udata(command, c::UVERBS_ATTR_CORE_IN, c::UVERBS_ATTR_CORE_OUT);
    if request < method.req_size.into() || response < method.resp_size.into() {
        return Err(ENOSPC);
    }
    // SAFETY: The method is from the API of the file's device. The command is an ioctl of that file, during which
    // `disassociate_srcu` is held: by the contract of `Bundle::run`.
    let result = unsafe { method.call(command, sleep) };
    if let Some(object) = Acquired::completed(command) {
        object.finish(true, result.is_ok(), sleep);
    }
    result
}

/// The handles of the file's objects of a class.
fn info_handles(command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let size = command.size(c::UVERBS_ATTR_INFO_HANDLES_LIST);
    let size = size.unwrap_or(0);
    if size == 0 || size % size_of::<u32>() != 0 {
        return Err(EINVAL);
    }
    let class = command.number::<u16>(c::UVERBS_ATTR_INFO_OBJECT_ID)?;
    if class == ObjectUse::ANY {
        return Err(ENOMSG);
    }
    let kind = command.file().api_object(class)?;
    let mut handles: KVVec<u32> = zeroed(size / size_of::<u32>(), GFP_KERNEL)?;
    let total = query::handles(command.file(), kind, &mut handles);
    let handles = handles.get(..total).ok_or(EINVAL)?;
    command.put_slice(c::UVERBS_ATTR_INFO_HANDLES_LIST, handles)?;
    command.put(c::UVERBS_ATTR_INFO_TOTAL_HANDLES, &(total as u32))
}

/// The attributes of a port.
fn query_port(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let device = command.ucontext()?.device();
    if device.ops().query_port.is_none() {
        return Err(EOPNOTSUPP);
    }
    let port = command.number::<u8>(c::UVERBS_ATTR_QUERY_PORT_PORT_NUM)?;
    let attr = verbs::query_port(device, port.into(), sleep)?;
    let response = c::ib_uverbs_query_port_resp_ex {
        legacy_resp: port_response(device, port.into(), &attr),
        port_cap_flags2: attr.port_cap_flags2,
        reserved: [0; 2],
        active_speed_ex: attr.active_speed.into(),
    };
    command.put_or_zero(c::UVERBS_ATTR_QUERY_PORT_RESP, &response)
}

/// The speed of a port.
fn query_port_speed(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let device = command.ucontext()?.device();
    if device.ops().query_port_speed.is_none() {
        return Err(EOPNOTSUPP);
    }
    let port = command.number::<u32>(c::UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM)?;
    if !device.is_port_valid(port) {
        return Err(EINVAL);
    }
    let speed = query::port_speed(device, port, sleep)?;
    command.put(c::UVERBS_ATTR_QUERY_PORT_SPEED_RESP, &speed)
}

/// The features of ib_uverbs: `enum ib_uverbs_core_support`.
fn core_support(device: &Device) -> u64 {
    let mut support = u64::from(c::IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS);
    if device.ops().uverbs_robust_udata() != 0 {
        support |= u64::from(c::IB_UVERBS_CORE_SUPPORT_ROBUST_UDATA);
    }
    support
}

/// Creates the file's context.
fn get_context(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let device = context::device(command)?;
    let vectors = Node::of(command.file()).comp_vectors();
    command.put_if_wanted(c::UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, &vectors)?;
    let support = core_support(device);
    command.put_if_wanted(c::UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, &support)?;
    if !command.file().ucontext().is_null() {
        return Err(EINVAL);
    }
    let caps = match command.array_len(c::UVERBS_ATTR_GET_CONTEXT_FD_ARR, size_of::<i32>()) {
        Err(error) if error == ENOENT => 0,
        count => {
            count?;
            query::user_caps(command.bytes(c::UVERBS_ATTR_GET_CONTEXT_FD_ARR)?, sleep)?
        }
    };
    NewContext::new(Call { command, sleep })?.publish(caps)
}

/// Queries the file's context.
fn query_context(command: &AttrBundle, sleep: &MaySleep) -> Result {
    let context = command.ucontext()?;
    if context.device().ops().query_ucontext.is_none() {
        return Err(EOPNOTSUPP);
    }
    let vectors = Node::of(command.file()).comp_vectors();
    command.put_if_wanted(c::UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, &vectors)?;
    let support = u64::from(c::IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS);
    command.put_if_wanted(c::UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, &support)?;
    query::query_ucontext(context, command, sleep)
}

/// All entries of the GID tables.
fn query_gid_table(command: &AttrBundle, sleep: &MaySleep) -> Result {
    command.flags(c::UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 0)?;
    let element = command.number::<usize>(c::UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE)?;
    let room = command.array_len(c::UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, element)?;
    if room == 0 {
        return Err(EINVAL);
    }
    let device = command.ucontext()?.device();
    let entries = query::gid_table(device, room, sleep)?;
    command.put_elements(
        c::UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
        &entries,
        element,
    )?;
    let count = entries.len() as u64;
    command.put(c::UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &count)
}

/// One entry of a GID table.
fn query_gid_entry(command: &AttrBundle, sleep: &MaySleep) -> Result {
    command.flags(c::UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 0)?;
    let port = command.number::<u32>(c::UVERBS_ATTR_QUERY_GID_ENTRY_PORT)?;
    let index = command.number::<u32>(c::UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX)?;
    let device = command.ucontext()?.device();
    let entry = query::gid_entry(device, port, index, sleep)?;
    command.put_or_zero(c::UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry)
}

static GET_CONTEXT: Method = Method::new(
    c::UVERBS_METHOD_GET_CONTEXT,
    get_context,
    &[
        &Attr::ptr_out(
            c::UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
            Size::of::<u32>(),
        ),
        &Attr::ptr_out(c::UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, Size::of::<u64>()),
        &Attr::ptr_in(
            c::UVERBS_ATTR_GET_CONTEXT_FD_ARR,
            Size::at_least(size_of::<i32>()),
        )
        .alloc_and_copy(),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static INVOKE_WRITE: Method = Method::new(
    c::UVERBS_METHOD_INVOKE_WRITE,
    invoke_write,
    &[
        &Attr::const_in(c::UVERBS_ATTR_WRITE_CMD).mandatory(),
        &Attr::ptr_in(c::UVERBS_ATTR_CORE_IN, Size::at_least(size_of::<u32>())),
        &Attr::ptr_out(c::UVERBS_ATTR_CORE_OUT, Size::at_least(0)),
        &Attr::UHW_IN,
        &Attr::UHW_OUT,
    ],
);

static INFO_HANDLES: Method = Method::new(
    c::UVERBS_METHOD_INFO_HANDLES,
    info_handles,
    &[
        &Attr::const_in(c::UVERBS_ATTR_INFO_OBJECT_ID).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_INFO_TOTAL_HANDLES, Size::of::<u32>()),
        &Attr::ptr_out(
            c::UVERBS_ATTR_INFO_HANDLES_LIST,
            Size::at_least(size_of::<u32>()),
        ),
    ],
);

static QUERY_PORT: Method = Method::new(
    c::UVERBS_METHOD_QUERY_PORT,
    query_port,
    &[
        &Attr::const_in(c::UVERBS_ATTR_QUERY_PORT_PORT_NUM).mandatory(),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_PORT_RESP,
            structure!(c::ib_uverbs_query_port_resp_ex, active_speed_ex),
        )
        .mandatory(),
    ],
);

static QUERY_PORT_SPEED: Method = Method::new(
    c::UVERBS_METHOD_QUERY_PORT_SPEED,
    query_port_speed,
    &[
        &Attr::const_in(c::UVERBS_ATTR_QUERY_PORT_SPEED_PORT_NUM).mandatory(),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_PORT_SPEED_RESP, Size::of::<u64>()).mandatory(),
    ],
);

static QUERY_CONTEXT: Method = Method::new(
    c::UVERBS_METHOD_QUERY_CONTEXT,
    query_context,
    &[
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
            Size::of::<u32>(),
        ),
        &Attr::ptr_out(c::UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, Size::of::<u64>()),
    ],
);

static QUERY_GID_TABLE: Method = Method::new(
    c::UVERBS_METHOD_QUERY_GID_TABLE,
    query_gid_table,
    &[
        &Attr::const_in(c::UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_QUERY_GID_TABLE_FLAGS),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
            Size::at_least(0),
        )
        .mandatory(),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
            Size::of::<u64>(),
        )
        .mandatory(),
    ],
);

static QUERY_GID_ENTRY: Method = Method::new(
    c::UVERBS_METHOD_QUERY_GID_ENTRY,
    query_gid_entry,
    &[
        &Attr::const_in(c::UVERBS_ATTR_QUERY_GID_ENTRY_PORT).mandatory(),
        &Attr::const_in(c::UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX).mandatory(),
        &Attr::flags_in(c::UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS).mandatory(),
        &Attr::ptr_out(
            c::UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
            structure!(c::ib_uverbs_gid_entry, netdev_ifindex),
        )
        .mandatory(),
    ],
);

static DEVICE: Object = Object::global(
    c::UVERBS_OBJECT_DEVICE,
    &[
        &GET_CONTEXT,
        &INVOKE_WRITE,
        &INFO_HANDLES,
        &QUERY_PORT,
        &QUERY_PORT_SPEED,
        &QUERY_CONTEXT,
        &QUERY_GID_TABLE,
        &QUERY_GID_ENTRY,
        #[cfg(has_comp_cntr)]
        &super::comp_cntr::QUERY_CAPS,
    ],
);

/// The definitions of the class.
pub(super) static DEFINITIONS: [Definition; 2] = [Definition::tree(&DEVICE), Definition::END];
