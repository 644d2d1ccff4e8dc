// SPDX-License-Identifier: GPL-2.0

//! Write commands of completion queues and completion channels.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::{prelude::*, sync::aref::ARef};
use kernel_ext::{bindings as c, error::EOPNOTSUPP};
use rdma::core::Cq;
use rdma_uverbs::{
    cq::{self, CqSpec},
    event::{default_async, CompletionChannel},
    lookup::{Destroyed, ReadLocked},
    new::NewObject,
    node::Node,
    request::{zeroed, Call},
    verbs,
};

/// `IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL`.
///
/// # Errors
///
/// `EMFILE`, `ENOMEM`.
pub(super) fn create_channel(
    call: &Call<'_>,
    _request: c::ib_uverbs_create_comp_channel,
) -> Result<c::ib_uverbs_create_comp_channel_resp> {
    let new = NewObject::<CompletionChannel>::begin(call.command, call.sleep)?;
    let response = c::ib_uverbs_create_comp_channel_resp { fd: new.id() };
    new.start();
    Ok(response)
}

/// `IB_USER_VERBS_CMD_CREATE_CQ`.
///
/// # Errors
///
/// As for [`create_extended`].
pub(super) fn create(
    call: &Call<'_>,
    request: c::ib_uverbs_create_cq,
) -> Result<c::ib_uverbs_create_cq_resp> {
    let wanted = c::ib_uverbs_ex_create_cq {
        user_handle: request.user_handle,
        cqe: request.cqe,
        comp_vector: request.comp_vector,
        comp_channel: request.comp_channel,
        ..zeroed()
    };
    make(call, wanted)
}

/// `IB_USER_VERBS_EX_CMD_CREATE_CQ`.
///
/// # Errors
///
/// `EINVAL` for an invalid completion vector, 0 entries, and unknown bits; `EBADF` for a file descriptor that is no channel's,
/// `ENOMEM`, and those of the driver.
pub(super) fn create_extended(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_create_cq,
) -> Result<c::ib_uverbs_ex_create_cq_resp> {
    if request.comp_mask != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    Ok(c::ib_uverbs_ex_create_cq_resp {
        base: make(call, request)?,
        comp_mask: 0,
        response_length: call.response_length::<c::ib_uverbs_ex_create_cq_resp>(),
    })
}

fn make(call: &Call<'_>, wanted: c::ib_uverbs_ex_create_cq) -> Result<c::ib_uverbs_create_cq_resp> {
    if wanted.comp_vector >= Node::of(call.command.file()).comp_vectors() || wanted.cqe == 0 {
        return Err(EINVAL);
    }
    let new = NewObject::<Cq>::begin(call.command, call.sleep)?;
    let channel = match wanted.comp_channel {
        ..0 => None,
        fd => {
            let held = ReadLocked::<CompletionChannel>::get_fd(call.command, fd, call.sleep)?;
            Some(ARef::from(held.memory()))
        }
    };
    let spec = CqSpec {
        cqe: wanted.cqe,
        comp_vector: wanted.comp_vector,
        flags: wanted.flags,
        user_handle: wanted.user_handle,
        channel,
        async_file: default_async(call.command.file()),
    };
    let cq = cq::create(call.command, &new, spec, call.sleep)?;
    let response = c::ib_uverbs_create_cq_resp {
        cq_handle: new.id(),
        cqe: cq.cqe(),
        ..zeroed()
    };
    new.complete(cq);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_RESIZE_CQ`.
///
/// # Errors
///
/// `EINVAL` for 0 entries, and those of the driver.
pub(super) fn resize(
    call: &Call<'_>,
    request: c::ib_uverbs_resize_cq,
) -> Result<c::ib_uverbs_resize_cq_resp> {
    if request.cqe == 0 {
        return Err(EINVAL);
    }
    let cq = ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    cq.driver_resize_user(request.cqe, call.udata(), call.sleep)?;
    Ok(c::ib_uverbs_resize_cq_resp {
        cqe: cq.cqe(),
        ..zeroed()
    })
}

/// `IB_USER_VERBS_CMD_REQ_NOTIFY_CQ`.
///
/// # Errors
///
/// Those of [`ReadLocked::get`].
pub(super) fn req_notify(call: &Call<'_>, request: c::ib_uverbs_req_notify_cq) -> Result {
    let cq = ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    let flags = if request.solicited_only != 0 {
        c::IB_CQ_SOLICITED
    } else {
        c::IB_CQ_NEXT_COMP
    };
    cq.driver_req_notify(flags);
    Ok(())
}

/// `IB_USER_VERBS_EX_CMD_MODIFY_CQ`: moderation.
///
/// # Errors
///
/// `EINVAL` if nothing is to be changed, `EOPNOTSUPP` for unknown bits, and those of the driver.
pub(super) fn modify(call: &Call<'_>, request: c::ib_uverbs_ex_modify_cq) -> Result {
    if request.attr_mask == 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    if request.attr_mask > c::IB_CQ_MODERATE {
        return Err(EOPNOTSUPP);
    }
    let cq = ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    verbs::set_cq_moderation(
        &cq,
        request.attr.cq_count,
        request.attr.cq_period,
        call.sleep,
    )
}

/// `IB_USER_VERBS_CMD_DESTROY_CQ`.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub(super) fn destroy(
    call: &Call<'_>,
    request: c::ib_uverbs_destroy_cq,
) -> Result<c::ib_uverbs_destroy_cq_resp> {
    let removed = Destroyed::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    Ok(c::ib_uverbs_destroy_cq_resp {
        comp_events_reported: removed.completions_reported(),
        async_events_reported: removed.events_reported(),
    })
}
