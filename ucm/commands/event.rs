// SPDX-License-Identifier: GPL-2.0

//! Events: the program reads the oldest, or writes one for itself.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::mem::offset_of;

use kernel::prelude::*;
use kernel_ext::bindings::{rdma_ucm_event_resp, RDMA_CM_EVENT_INTERNAL, RDMA_CM_EVENT_USER};
use rdma_user_cm::Response;

use crate::{
    call::Call,
    layout::{GetEvent, WriteCmEvent},
    recipient::{About, Pending},
};

/// The size of an event for the oldest programs.
const LEAST: usize = offset_of!(rdma_ucm_event_resp, reserved);

/// `RDMA_USER_CM_CMD_GET_EVENT`.
pub(crate) fn get(call: &Call<'_>) -> Result {
    call.needs_room(LEAST)?;
    let command: GetEvent = call.read()?;
    let hand_over = |event: &Pending| {
        call.answer(command.response, event.response())?;
        event.count();
        Ok(())
    };
    call.channel.take(call.waits, hand_over, call.sleep)
}

/// `RDMA_USER_CM_CMD_WRITE_CM_EVENT`.
pub(crate) fn write(call: &Call<'_>) -> Result {
    let command: WriteCmEvent = call.read()?;
    if !matches!(command.event, RDMA_CM_EVENT_USER | RDMA_CM_EVENT_INTERNAL) {
        return Err(EINVAL);
    }
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let recipient = context.recipient();
    let tell = |response: &mut Response| {
        response.set_by_program(command.event, command.status, command.param.0)
    };
    let _quiet = entered.quiet(call.sleep);
    recipient.uid().ok_or(EINVAL)?;
    let pending = Pending::new(recipient.clone(), About::Id, tell)?;
    recipient.home().add(pending);
    Ok(())
}
