// SPDX-License-Identifier: GPL-2.0

//! Identifiers come, go, and move to other files.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::prelude::*;
use kernel_ext::bindings::{
    IB_QPT_RC, IB_QPT_UD, RDMA_PS_IB, RDMA_PS_IPOIB, RDMA_PS_TCP, RDMA_PS_UDP,
};
use rdma_user_cm::Id;

use crate::{
    call::{answer, Call},
    context::{self, Context},
    layout::{CreateId, DestroyId, MigrateId},
    numbers,
    queue::Member,
    recipient::{Pending, Recipient},
};

/// The size of the answers: one number.
const ANSWER: usize = size_of::<u32>();

/// The type of the queue pair that a port space has, `enum ib_qp_type`.
fn qp_type(command: &CreateId) -> Result<u32> {
    match command.ps.into() {
        RDMA_PS_TCP => Ok(IB_QPT_RC),
        RDMA_PS_UDP | RDMA_PS_IPOIB => Ok(IB_QPT_UD),
        RDMA_PS_IB => Ok(command.qp_type.into()),
        _ => Err(EINVAL),
    }
}

/// `RDMA_USER_CM_CMD_CREATE_ID`.
pub(crate) fn create(call: &Call<'_>) -> Result {
    call.needs_room(ANSWER)?;
    let command: CreateId = call.read()?;
    let qp_type = qp_type(&command)?;
    let (number, place) = numbers::reserve::<Context>()?;
    let (id, member) = (number.get(), Member::new(number.get())?);
    let recipient = Recipient::new(id, command.uid, call.channel.clone())?;
    let made = Id::create(recipient.clone(), command.ps, qp_type, call.sleep)?;
    let context = Context::new(made, recipient, number)?;
    answer(command.response, &id.to_ne_bytes()).inspect_err(|_| context.discard(call.sleep))?;
    call.channel.admit(member, None, || place.publish(context));
    Ok(())
}

/// `RDMA_USER_CM_CMD_DESTROY_ID`.
pub(crate) fn destroy(call: &Call<'_>) -> Result {
    call.needs_room(ANSWER)?;
    let command: DestroyId = call.read()?;
    let context = context::take(call.channel, command.id)?;
    let reported = context::destroy(context, call.sleep);
    answer(command.response, &reported.to_ne_bytes())
}

/// `RDMA_USER_CM_CMD_MIGRATE_ID`: the identifier and its events move here from another file.
pub(crate) fn migrate(call: &Call<'_>) -> Result {
    let command: MigrateId = call.read()?;
    let to = call.channel;
    (call.by_descriptor)(command.fd, &mut |from| {
        let context = context::find(from, command.id)?;
        let entered = context.enter()?;
        let recipient = context.recipient();
        // No event comes until it has moved, and it is not destroyed before.
        let _quiet = entered.quiet(call.sleep);
        context.move_to(from, to)?;
        let is_its = |event: &Pending| event.is_for(recipient);
        let read = || recipient.reported.get();
        let (belongings, reported) = from.dismiss(recipient.number(), is_its, read);
        to.welcome(belongings);
        answer(command.response, &reported.to_ne_bytes())
    })
}
