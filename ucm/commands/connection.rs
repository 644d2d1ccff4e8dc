// SPDX-License-Identifier: GPL-2.0

//! Connections: asked for, listened for, answered, ended; and the attributes of their queue pairs.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{
    ib_uverbs_qp_attr, rdma_ucm_accept, rdma_ucm_connect, IB_CM_REJ_CONSUMER_DEFINED,
    IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED,
};
use rdma::abi::qp::QpState;

use crate::{
    backlog,
    call::{answer, Call},
    layout::{Accept, Connect, Disconnect, InitQpAttr, Listen, Notify, Reject},
};

/// `RDMA_USER_CM_CMD_CONNECT`.
pub(crate) fn connect(call: &Call<'_>) -> Result {
    let command: Connect = call.read_grown(offset_of!(rdma_ucm_connect, ece))?;
    let param = command.conn_param.0.ok_or(EINVAL)?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.connect(&param, command.ece)
}

/// `RDMA_USER_CM_CMD_LISTEN`.
pub(crate) fn listen(call: &Call<'_>) -> Result {
    let command: Listen = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let backlog = backlog::limited(command.backlog);
    context.recipient().set_backlog(backlog);
    let calls = entered.lock(call.sleep);
    calls.listen(backlog)
}

/// `RDMA_USER_CM_CMD_ACCEPT`.
pub(crate) fn accept(call: &Call<'_>) -> Result {
    let command: Accept = call.read_grown(offset_of!(rdma_ucm_accept, ece))?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    let param = command.conn_param.0;
    // Who answers a request says what it calls the identifier; who confirms a reply has done so.
    let accepted = || {
        if param.is_some() {
            context.recipient().set_uid(command.uid);
        }
    };
    calls.accept(param.as_ref(), command.ece, accepted, call.sleep)
}

/// `RDMA_USER_CM_CMD_REJECT`.
pub(crate) fn reject(call: &Call<'_>) -> Result {
    let command: Reject = call.read()?;
    const DEFINED: u8 = IB_CM_REJ_CONSUMER_DEFINED as u8;
    const NO_OPTION: u8 = IB_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED as u8;
    let reason = match command.reason {
        0 => DEFINED,
        reason @ (DEFINED | NO_OPTION) => reason,
        _ => return Err(EINVAL),
    };
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    let length = usize::from(command.private_data_len);
    let why = command.private_data.get(..length).ok_or(EINVAL)?;
    calls.reject(why, reason)
}

/// `RDMA_USER_CM_CMD_DISCONNECT`.
pub(crate) fn disconnect(call: &Call<'_>) -> Result {
    let command: Disconnect = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.disconnect()
}

/// `RDMA_USER_CM_CMD_INIT_QP_ATTR`.
pub(crate) fn init_qp_attr(call: &Call<'_>) -> Result {
    call.needs_room(size_of::<ib_uverbs_qp_attr>())?;
    let command: InitQpAttr = call.read()?;
    let state = QpState::try_from(command.qp_state)?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    let attributes = calls.qp_attr(state)?;
    drop(calls);
    answer(command.response, &attributes)
}

/// `RDMA_USER_CM_CMD_NOTIFY`.
pub(crate) fn notify(call: &Call<'_>) -> Result {
    let command: Notify = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.notify(command.event)
}
