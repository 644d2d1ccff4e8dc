// SPDX-License-Identifier: GPL-2.0

//! The commands that programs write to `/dev/infiniband/rdma_cm`, as a table.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::{prelude::*, sync::Arc, uaccess::UserPtr};
use kernel_ext::{bindings as c, error::ENOSYS};
use rdma::MaySleep;

use crate::{
    call::{read_bytes, ByDescriptor, Call},
    layout::{Head, Layout},
    recipient::Channel,
};

mod address;
mod connection;
mod event;
mod identifier;
mod multicast;
mod option;
mod query;

/// A command.
type Method = fn(&Call<'_>) -> Result;

/// The number of commands.
const COUNT: usize = c::RDMA_USER_CM_CMD_WRITE_CM_EVENT as usize + 1;

/// The commands by number. `GET_OPTION` has a number, and nothing else.
const METHODS: [(u32, Method); COUNT - 1] = [
    (c::RDMA_USER_CM_CMD_CREATE_ID, identifier::create),
    (c::RDMA_USER_CM_CMD_DESTROY_ID, identifier::destroy),
    (c::RDMA_USER_CM_CMD_BIND_IP, address::bind_ip),
    (c::RDMA_USER_CM_CMD_RESOLVE_IP, address::resolve_ip),
    (c::RDMA_USER_CM_CMD_RESOLVE_ROUTE, address::resolve_route),
    (c::RDMA_USER_CM_CMD_QUERY_ROUTE, query::query_route),
    (c::RDMA_USER_CM_CMD_CONNECT, connection::connect),
    (c::RDMA_USER_CM_CMD_LISTEN, connection::listen),
    (c::RDMA_USER_CM_CMD_ACCEPT, connection::accept),
    (c::RDMA_USER_CM_CMD_REJECT, connection::reject),
    (c::RDMA_USER_CM_CMD_DISCONNECT, connection::disconnect),
    (c::RDMA_USER_CM_CMD_INIT_QP_ATTR, connection::init_qp_attr),
    (c::RDMA_USER_CM_CMD_GET_EVENT, event::get),
    (c::RDMA_USER_CM_CMD_SET_OPTION, option::set),
    (c::RDMA_USER_CM_CMD_NOTIFY, connection::notify),
    (c::RDMA_USER_CM_CMD_JOIN_IP_MCAST, multicast::join_ip),
    (c::RDMA_USER_CM_CMD_LEAVE_MCAST, multicast::leave),
    (c::RDMA_USER_CM_CMD_MIGRATE_ID, identifier::migrate),
    (c::RDMA_USER_CM_CMD_QUERY, query::query),
    (c::RDMA_USER_CM_CMD_BIND, address::bind),
    (c::RDMA_USER_CM_CMD_RESOLVE_ADDR, address::resolve_addr),
    (c::RDMA_USER_CM_CMD_JOIN_MCAST, multicast::join),
    (
        c::RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE,
        address::resolve_ib_service,
    ),
    (c::RDMA_USER_CM_CMD_WRITE_CM_EVENT, event::write),
];

/// The command with each number.
const BY_NUMBER: [Option<Method>; COUNT] = {
    let mut methods: [Option<Method>; COUNT] = [None; COUNT];
    let mut at = 0;
    while at < METHODS.len() {
        let (number, method) = METHODS[at];
        methods[number as usize] = Some(method);
        at += 1;
    }
    methods
};

/// Executes a command of `len` bytes.
///
/// # Errors
///
/// `EINVAL` for a command that is too short or has an unknown number, `ENOSYS` for one that is none any more, `EFAULT`, and its own.
pub(crate) fn execute(
    channel: &Arc<Channel>,
    waits: bool,
    (from, len): (UserPtr, usize),
    by_descriptor: ByDescriptor,
    sleep: &MaySleep,
) -> Result {
    if len < Head::SIZE {
        return Err(EINVAL);
    }
    let head = Head::read(&read_bytes::<<Head as Layout>::Bytes>(from)?);
    let in_len = usize::from(head.in_);
    let method = BY_NUMBER.get(head.cmd as usize).ok_or(EINVAL)?;
    if in_len > len.saturating_sub(Head::SIZE) {
        return Err(EINVAL);
    }
    let method = method.ok_or(ENOSYS)?;
    method(&Call {
        channel,
        waits,
        from: from.wrapping_byte_add(Head::SIZE),
        in_len,
        out_len: head.out.into(),
        by_descriptor,
        sleep,
    })
}
