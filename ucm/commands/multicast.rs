// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: joined and left.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings::{
    FULLMEMBER_JOIN, RDMA_MC_JOIN_FLAG_FULLMEMBER, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
    SENDONLY_FULLMEMBER_JOIN,
};
use rdma_user_cm::{Entered, SocketAddress};

use crate::{
    call::{answer, Call},
    context::Context,
    layout::{DestroyId, JoinIpMcast, JoinMcast},
    numbers::{self, Numbered},
    recipient::{Group, Pending},
};

/// The size of the answers: one number.
const ANSWER: usize = size_of::<u32>();

/// Which group is joined, and how.
struct Wish {
    response: u64,
    uid: u64,
    id: u32,
    address: SocketAddress,
    join_state: u8,
}

/// `RDMA_USER_CM_CMD_JOIN_IP_MCAST`.
pub(crate) fn join_ip(call: &Call<'_>) -> Result {
    let command: JoinIpMcast = call.read()?;
    if command.addr.size() == 0 {
        return Err(EINVAL);
    }
    call.needs_room(ANSWER)?;
    let wish = Wish {
        response: command.response,
        uid: command.uid,
        id: command.id,
        address: command.addr.any(),
        join_state: 1 << FULLMEMBER_JOIN,
    };
    join_as(call, &wish)
}

/// `RDMA_USER_CM_CMD_JOIN_MCAST`.
pub(crate) fn join(call: &Call<'_>) -> Result {
    let command: JoinMcast = call.read()?;
    let size = command.addr.size();
    if size == 0 {
        return Err(EINVAL);
    }
    call.needs_room(ANSWER)?;
    if size != usize::from(command.addr_size) {
        return Err(EINVAL);
    }
    let join_state = match command.join_flags.into() {
        RDMA_MC_JOIN_FLAG_FULLMEMBER => 1 << FULLMEMBER_JOIN,
        RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER => 1 << SENDONLY_FULLMEMBER_JOIN,
        _ => return Err(EINVAL),
    };
    let wish = Wish {
        response: command.response,
        uid: command.uid,
        id: command.id,
        address: command.addr,
        join_state,
    };
    join_as(call, &wish)
}

fn join_as(call: &Call<'_>, wish: &Wish) -> Result {
    let context = call.context(wish.id)?;
    let entered = context.enter()?;
    let recipient = context.recipient();
    entered.lock(call.sleep).check_device()?;
    let (own, place) = numbers::reserve::<Group>()?;
    let number = own.get();
    let group = Group::new(own, recipient.number(), wish.uid, wish.address)?;
    // An event may come before the call returns.
    recipient.add_group(group.clone())?;
    let joined = entered
        .lock(call.sleep)
        .join(wish.address, wish.join_state, number);
    if joined.is_err() {
        recipient.remove_group(&group);
        return joined;
    }
    if let Err(error) = answer(wish.response, &number.to_ne_bytes()) {
        leave_group(call, &context, &entered, &group);
        return Err(error);
    }
    place.publish(group);
    Ok(())
}

/// `RDMA_USER_CM_CMD_LEAVE_MCAST`.
pub(crate) fn leave(call: &Call<'_>) -> Result {
    call.needs_room(ANSWER)?;
    let command: DestroyId = call.read()?;
    let member = Group::with(|table| table.get(command.id).map(|group| group.member));
    let member = member.flatten().ok_or(ENOENT)?;
    // An identifier that is being destroyed takes its groups along.
    let context = call
        .context(member)
        .map_err(|error| match error == ENOENT {
            true => ENXIO,
            false => error,
        })?;
    let entered = context.enter()?;
    let group = take(&context, command.id).ok_or(ENOENT)?;
    leave_group(call, &context, &entered, &group);
    answer(command.response, &group.reported.get().to_ne_bytes())
}

/// Takes the group with a number out, if it is one of the identifier.
fn take(context: &Context, number: u32) -> Option<Arc<Group>> {
    let own = context.recipient().group(number)?;
    Group::with(|table| {
        table.get(number).filter(|group| Arc::ptr_eq(group, &own))?;
        table.take(number)
    })?
}

/// Leaves a group. The events of it that nobody has read are dropped.
fn leave_group(call: &Call<'_>, context: &Context, entered: &Entered<'_>, group: &Arc<Group>) {
    entered.lock(call.sleep).leave(group.address);
    let recipient = context.recipient();
    // A handler that has begun adds its event first.
    let quiet = entered.quiet(call.sleep);
    recipient.remove_group(group);
    let events = recipient
        .home()
        .extract(|event: &Pending| event.is_about(group));
    drop(quiet);
    drop(events);
}
