// SPDX-License-Identifier: GPL-2.0

//! The commands that programs write to `/dev/infiniband/rdma_cm`, as a table.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::{
    prelude::*,
    sync::Arc,
    uaccess::{UserPtr, UserSlice},
};
use kernel_ext::{bindings as c, error::ENOSYS};
use rdma::MaySleep;

use crate::{
    call::{ByDescriptor, Call},
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
    let mut head = [0; Head::SIZE];
    if len < head.len() {
        return Err(EINVAL);
    }
    UserSlice::new(from, head.len())
        .reader()
        .read_slice(&mut head)?;
    let head = Head::read(&head);
    let in_len = usize::from(head.in_);
    if head.cmd as usize >= COUNT || in_len > len.saturating_sub(Head::SIZE) {
        return Err(EINVAL);
    }
    let found = METHODS.iter().find(|(number, _)| *number == head.cmd);
    let (_, method) = found.ok_or(ENOSYS)?;
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
