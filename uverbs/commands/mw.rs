// SPDX-License-Identifier: GPL-2.0

//! Write commands of memory windows.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::core::{object::Fresh, Mw, Pd};
use rdma_uverbs::{
    lookup::{self, ReadLocked},
    new::NewObject,
    request::{zeroed, Call},
};

/// `IB_USER_VERBS_CMD_ALLOC_MW`.
///
/// # Errors
///
/// `EINVAL` for an unknown type, `ENOMEM`, and those of the driver.
pub(super) fn alloc(
    call: &Call<'_>,
    request: c::ib_uverbs_alloc_mw,
) -> Result<c::ib_uverbs_alloc_mw_resp> {
    let new = NewObject::<Mw>::begin(call.command, call.sleep)?;
    let pd = ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep)?;
    let kind = u32::from(request.mw_type);
    if !matches!(kind, c::IB_MW_TYPE_1 | c::IB_MW_TYPE_2) {
        return Err(EINVAL);
    }
    let mw = Fresh::<Mw>::new_user(&pd, new.link(), kind, call.sleep)?;
    let mw = mw
        .driver_alloc(call.udata(), call.sleep)
        .map_err(|failed| failed.error)?;
    pd.uses().inc();
    let response = c::ib_uverbs_alloc_mw_resp {
        mw_handle: new.id(),
        rkey: mw.rkey(),
        ..zeroed()
    };
    new.complete(mw);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_DEALLOC_MW`.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn dealloc(call: &Call<'_>, request: c::ib_uverbs_dealloc_mw) -> Result {
    lookup::destroy::<Mw>(call.command, request.mw_handle, call.sleep)
}
