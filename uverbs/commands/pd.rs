// SPDX-License-Identifier: GPL-2.0

//! Write commands of protection domains.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::core::{object::Fresh, Pd};
use rdma_uverbs::{
    lookup,
    new::NewObject,
    request::{zeroed, Call},
    verbs::track,
};

/// `IB_USER_VERBS_CMD_ALLOC_PD`.
///
/// # Errors
///
/// `ENOMEM`, and those of the driver.
pub(super) fn alloc(
    call: &Call<'_>,
    _request: c::ib_uverbs_alloc_pd,
) -> Result<c::ib_uverbs_alloc_pd_resp> {
    let new = NewObject::<Pd>::begin(call.command, call.sleep)?;
    let mut pd = Fresh::<Pd>::new_user(call.device()?, new.link(), call.sleep)?;
    track::set_owner(&mut pd);
    let pd = pd
        .driver_alloc(Some(call.udata()), call.sleep)
        .map_err(track::discard)?;
    track::add(&pd);
    let response = c::ib_uverbs_alloc_pd_resp {
        pd_handle: new.id(),
        ..zeroed()
    };
    new.complete(pd);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_DEALLOC_PD`.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub(super) fn dealloc(call: &Call<'_>, request: c::ib_uverbs_dealloc_pd) -> Result {
    lookup::destroy::<Pd>(call.command, request.pd_handle, call.sleep)
}
