// SPDX-License-Identifier: GPL-2.0

//! Write commands of work queues and receive work queue indirection tables.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, error::EOPNOTSUPP};
use rdma::core::{object::Fresh, user::WqArray, Cq, Pd, RwqIndTable, Wq};
use rdma_uverbs::{
    event::default_async,
    lookup::{self, Destroyed, ReadLocked},
    new::NewObject,
    request::{zeroed, Call},
    wq::{self, WqSpec},
};

/// `IB_USER_VERBS_EX_CMD_CREATE_WQ`.
///
/// # Errors
///
/// `EOPNOTSUPP` for unknown bits, `ENOMEM`, and those of the driver.
pub(super) fn create(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_create_wq,
) -> Result<c::ib_uverbs_ex_create_wq_resp> {
    if request.comp_mask != 0 {
        return Err(EOPNOTSUPP);
    }
    let new = NewObject::<Wq>::begin(call.command, call.sleep)?;
    let pd = ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep)?;
    let cq = ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep)?;
    let spec = WqSpec {
        kind: request.wq_type,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        create_flags: request.create_flags,
        user_handle: request.user_handle,
        async_file: default_async(call.command.file()),
    };
    let made = wq::create(call.command, &new, &pd, &cq, spec, call.sleep)?;
    let response = c::ib_uverbs_ex_create_wq_resp {
        comp_mask: 0,
        response_length: call.response_length::<c::ib_uverbs_ex_create_wq_resp>(),
        wq_handle: new.id(),
        max_wr: made.max_wr,
        max_sge: made.max_sge,
        wqn: made.number,
    };
    new.complete(made.wq);
    Ok(response)
}

/// `IB_USER_VERBS_EX_CMD_DESTROY_WQ`.
///
/// # Errors
///
/// `EOPNOTSUPP` for unknown bits, `EBUSY` while it is used, and those of the driver.
pub(super) fn destroy(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_destroy_wq,
) -> Result<c::ib_uverbs_ex_destroy_wq_resp> {
    if request.comp_mask != 0 {
        return Err(EOPNOTSUPP);
    }
    let removed = Destroyed::<Wq>::get(call.command, request.wq_handle, call.sleep)?;
    Ok(c::ib_uverbs_ex_destroy_wq_resp {
        response_length: call.response_length::<c::ib_uverbs_ex_destroy_wq_resp>(),
        events_reported: removed.events_reported(),
        ..zeroed()
    })
}

/// `IB_USER_VERBS_EX_CMD_MODIFY_WQ`.
///
/// # Errors
///
/// `EINVAL` if nothing is to be changed, for unknown attributes and invalid states; and those of the driver.
pub(super) fn modify(call: &Call<'_>, request: c::ib_uverbs_ex_modify_wq) -> Result {
    const KNOWN: u32 = c::IB_WQ_STATE | c::IB_WQ_CUR_STATE | c::IB_WQ_FLAGS;
    let has = |attr: u32| request.attr_mask & attr != 0;
    if request.attr_mask == 0 || request.attr_mask & !KNOWN != 0 {
        return Err(EINVAL);
    }
    let wq = ReadLocked::<Wq>::get(call.command, request.wq_handle, call.sleep)?;
    let state = |attr: u32, given: u32, otherwise: u32| match given {
        _ if !has(attr) => Ok(otherwise),
        0..=c::IB_WQS_ERR => Ok(given),
        _ => Err(EINVAL),
    };
    let current = state(c::IB_WQ_CUR_STATE, request.curr_wq_state, wq.state())?;
    let changes_flags = has(c::IB_WQ_FLAGS);
    let mut attr = c::ib_wq_attr {
        wq_state: state(c::IB_WQ_STATE, request.wq_state, current)?,
        curr_wq_state: current,
        flags: if changes_flags { request.flags } else { 0 },
        flags_mask: if changes_flags { request.flags_mask } else { 0 },
    };
    wq.driver_modify_user(&mut attr, request.attr_mask, call.udata(), call.sleep)
}

/// `IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL`: the handles of the work queues follow the request.
///
/// # Errors
///
/// `EOPNOTSUPP` for unknown bits, `EINVAL` for a table that is too large, `ENOSPC` for a command that is too short, `ENOMEM`,
/// and those of the driver.
pub(super) fn create_table(call: &Call<'_>) -> Result {
    type Response = c::ib_uverbs_ex_create_rwq_ind_table_resp;
    let (request, mut tail) = call.head::<c::ib_uverbs_ex_create_rwq_ind_table>()?;
    if request.comp_mask != 0 {
        return Err(EOPNOTSUPP);
    }
    let log_size = request.log_ind_tbl_size;
    if log_size > c::IB_USER_VERBS_MAX_LOG_IND_TBL_SIZE {
        return Err(EINVAL);
    }
    let handles = tail.take_records(1 << log_size, size_of::<u32>())?;
    let handles = handles.read_array::<u32>()?;
    tail.finish()?;

    let mut held = KVec::with_capacity(handles.len(), GFP_KERNEL)?;
    let mut queues = WqArray::with_capacity(handles.len())?;
    for handle in handles {
        let wq = ReadLocked::<Wq>::get(call.command, handle, call.sleep)?;
        queues.push(&wq)?;
        held.push(wq, GFP_KERNEL)?;
    }
    let new = NewObject::<RwqIndTable>::begin(call.command, call.sleep)?;
    let device = call.device()?;
    let table = Fresh::<RwqIndTable>::new_user(device, new.link(), log_size, call.sleep)?;
    let table = table
        .driver_create(queues, call.udata(), call.sleep)
        .map_err(|failed| failed.error)?;
    let response = Response {
        comp_mask: 0,
        response_length: call.response_length::<Response>(),
        ind_tbl_handle: new.id(),
        ind_tbl_num: table.number(),
    };
    new.complete(table);
    call.respond(&response)
}

/// `IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL`.
///
/// # Errors
///
/// `EOPNOTSUPP` for unknown bits, `EBUSY` while it is used, and those of the driver.
pub(super) fn destroy_table(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_destroy_rwq_ind_table,
) -> Result {
    if request.comp_mask != 0 {
        return Err(EOPNOTSUPP);
    }
    lookup::destroy::<RwqIndTable>(call.command, request.ind_tbl_handle, call.sleep)
}
