// SPDX-License-Identifier: GPL-2.0

//! Write commands of memory regions.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, error::EOPNOTSUPP};
use rdma::core::{Mr, Pd};
use rdma_uverbs::{
    lookup::{self, ReadLocked, WriteLocked},
    mr::{self, Change, Range},
    new::NewObject,
    request::{zeroed, Call},
    verbs::track,
};

/// `IB_USER_VERBS_CMD_REG_MR`.
///
/// # Errors
///
/// `EINVAL` for addresses with different offsets in a page and for unknown access flags, `EOPNOTSUPP` for access that the device
/// does not support, `EFAULT`, `ENOMEM`, and those of the driver.
pub(super) fn reg(
    call: &Call<'_>,
    request: c::ib_uverbs_reg_mr,
) -> Result<c::ib_uverbs_reg_mr_resp> {
    let range = Range {
        start: request.start,
        length: request.length,
        iova: request.hca_va,
    };
    if !range.is_aligned() {
        return Err(EINVAL);
    }
    let new = NewObject::<Mr>::begin(call.command, call.sleep)?;
    let access = request.access_flags;
    mr::check_access(call.device()?, access)?;
    let pd = ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep)?;
    let mr = mr::reg_user(
        call.command,
        new.link(),
        &pd,
        range,
        access,
        None,
        call.sleep,
    )?;
    let response = c::ib_uverbs_reg_mr_resp {
        mr_handle: new.id(),
        lkey: mr.lkey(),
        rkey: mr.rkey(),
        ..zeroed()
    };
    new.complete(mr);
    Ok(response)
}

/// The range of a reregistration.
fn range_of(request: &c::ib_uverbs_rereg_mr) -> Range {
    Range {
        start: request.start,
        length: request.length,
        iova: request.hca_va,
    }
}

/// Checks the flags and addresses of a reregistration.
fn check_rereg(request: &c::ib_uverbs_rereg_mr) -> Result {
    if request.flags == 0 {
        return Err(EINVAL);
    }
    if request.flags & !c::IB_MR_REREG_SUPPORTED != 0 {
        return Err(EOPNOTSUPP);
    }
    if request.flags & c::IB_MR_REREG_TRANS != 0 && !range_of(request).is_aligned() {
        return Err(EINVAL);
    }
    Ok(())
}

/// `IB_USER_VERBS_CMD_REREG_MR`.
///
/// # Errors
///
/// `EINVAL` if nothing is to be changed or the region is one of device memory, `EBUSY` while another command uses it, and as for
/// [`reg`].
pub(super) fn rereg(
    call: &Call<'_>,
    request: c::ib_uverbs_rereg_mr,
) -> Result<c::ib_uverbs_rereg_mr_resp> {
    check_rereg(&request)?;
    let changes = |flag: u32| request.flags & flag != 0;
    let mut old = WriteLocked::<Mr>::get(call.command, request.mr_handle, call.sleep)?;
    if old.is_device_memory() {
        return Err(EINVAL);
    }
    if changes(c::IB_MR_REREG_ACCESS) {
        mr::check_access(old.device(), request.access_flags)?;
    }
    let mut flags = request.flags;
    let named = changes(c::IB_MR_REREG_PD)
        .then(|| ReadLocked::<Pd>::get(call.command, request.pd_handle, call.sleep))
        .transpose()?;
    let other = named.filter(|pd| !old.is_in(pd));
    if other.is_none() {
        flags &= !c::IB_MR_REREG_PD;
    }
    // A driver may return a new region, which needs an object.
    let new = NewObject::<Mr>::begin(call.command, call.sleep)?;
    let change = Change {
        flags,
        range: range_of(&request),
        access: request.access_flags,
    };
    let to = other.as_deref();
    let made = mr::rereg(&mut old, &change, to, call.udata(), call.sleep)?;
    let Some(mut mr) = made else {
        return Ok(c::ib_uverbs_rereg_mr_resp {
            lkey: old.lkey(),
            rkey: old.rkey(),
            ..zeroed()
        });
    };
    track::set_owner(&mut mr);
    let mr = mr.into_replacement(new.link());
    track::add(&mr);
    let response = c::ib_uverbs_rereg_mr_resp {
        lkey: mr.lkey(),
        rkey: mr.rkey(),
        ..zeroed()
    };
    new.replace(old, mr);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_DEREG_MR`.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub(super) fn dereg(call: &Call<'_>, request: c::ib_uverbs_dereg_mr) -> Result {
    lookup::destroy::<Mr>(call.command, request.mr_handle, call.sleep)
}
