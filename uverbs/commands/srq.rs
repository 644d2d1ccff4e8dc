// SPDX-License-Identifier: GPL-2.0

//! Write commands of shared receive queues.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::core::{Cq, Pd, Srq, Xrcd};
use rdma_uverbs::{
    event::default_async,
    lookup::{Destroyed, ReadLocked},
    new::NewObject,
    request::{zeroed, Call},
    srq::{self, SrqKind, SrqSpec},
    verbs,
};

/// `IB_USER_VERBS_CMD_CREATE_SRQ`.
///
/// # Errors
///
/// As for [`create_extended`].
pub(super) fn create(
    call: &Call<'_>,
    request: c::ib_uverbs_create_srq,
) -> Result<c::ib_uverbs_create_srq_resp> {
    let wanted = c::ib_uverbs_create_xsrq {
        user_handle: request.user_handle,
        srq_type: c::IB_SRQT_BASIC,
        pd_handle: request.pd_handle,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        srq_limit: request.srq_limit,
        ..zeroed()
    };
    create_extended(call, wanted)
}

/// `IB_USER_VERBS_CMD_CREATE_XSRQ`.
///
/// # Errors
///
/// `EINVAL` for an invalid XRC domain, `ENOMEM`, and those of the driver.
pub(super) fn create_extended(
    call: &Call<'_>,
    request: c::ib_uverbs_create_xsrq,
) -> Result<c::ib_uverbs_create_srq_resp> {
    let new = NewObject::<Srq>::begin(call.command, call.sleep)?;
    let xrcd = match request.srq_type {
        c::IB_SRQT_XRC => {
            let xrcd = ReadLocked::<Xrcd>::get(call.command, request.xrcd_handle, call.sleep);
            Some(xrcd.map_err(|_| EINVAL)?)
        }
        _ => None,
    };
    let cq = verbs::srq_has_cq(request.srq_type)
        .then(|| ReadLocked::<Cq>::get(call.command, request.cq_handle, call.sleep))
        .transpose()?;
    let pd = ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep)?;
    let kind = match (request.srq_type, &cq, &xrcd) {
        (c::IB_SRQT_BASIC, _, _) => SrqKind::Basic,
        (c::IB_SRQT_XRC, Some(cq), Some(xrcd)) => SrqKind::Xrc(cq, xrcd.memory()),
        (c::IB_SRQT_TM, Some(cq), _) => SrqKind::TagMatching(cq, request.max_num_tags),
        (kind, _, _) => SrqKind::Other(kind),
    };
    let spec = SrqSpec {
        kind,
        max_wr: request.max_wr,
        max_sge: request.max_sge,
        limit: request.srq_limit,
        user_handle: request.user_handle,
        async_file: default_async(call.command.file()),
    };
    let made = srq::create(call.command, &new, &pd, spec, call.sleep)?;
    let response = c::ib_uverbs_create_srq_resp {
        srq_handle: new.id(),
        max_wr: made.max_wr,
        max_sge: made.max_sge,
        srqn: made.number.unwrap_or(0),
        ..zeroed()
    };
    new.complete(made.srq);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_MODIFY_SRQ`.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn modify(call: &Call<'_>, request: c::ib_uverbs_modify_srq) -> Result {
    let srq = ReadLocked::<Srq>::get(call.command, request.srq_handle, call.sleep)?;
    let mut attr = c::ib_srq_attr {
        max_wr: request.max_wr,
        max_sge: 0,
        srq_limit: request.srq_limit,
    };
    srq.driver_modify_user(&mut attr, request.attr_mask, call.udata(), call.sleep)
}

/// `IB_USER_VERBS_CMD_QUERY_SRQ`.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn query(
    call: &Call<'_>,
    request: c::ib_uverbs_query_srq,
) -> Result<c::ib_uverbs_query_srq_resp> {
    let srq = ReadLocked::<Srq>::get(call.command, request.srq_handle, call.sleep)?;
    let attr = verbs::query_srq(&srq, call.sleep)?;
    Ok(c::ib_uverbs_query_srq_resp {
        max_wr: attr.max_wr,
        max_sge: attr.max_sge,
        srq_limit: attr.srq_limit,
        reserved: 0,
    })
}

/// `IB_USER_VERBS_CMD_DESTROY_SRQ`.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub(super) fn destroy(
    call: &Call<'_>,
    request: c::ib_uverbs_destroy_srq,
) -> Result<c::ib_uverbs_destroy_srq_resp> {
    let removed = Destroyed::<Srq>::get(call.command, request.srq_handle, call.sleep)?;
    Ok(c::ib_uverbs_destroy_srq_resp {
        events_reported: removed.events_reported(),
    })
}
