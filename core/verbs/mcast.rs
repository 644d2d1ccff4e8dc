// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: which datagrams a queue pair receives.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, error::EOPNOTSUPP, export::export};
use rdma::{
    core::{gid::GidArgument, qp::QpAttr, Qp},
    Gid, MaySleep,
};

use crate::registry::port;

/// The first multicast LID.
const MULTICAST_LID_BASE: u16 = 0xc000;

/// The LID that stands for any: none of a group.
const PERMISSIVE_LID: u16 = 0xffff;

/// Whether the LID of a group may be that.
///
/// Over Ethernet there are no LIDs (RoCE annex): any will do on a port that is one, or might be.
fn is_valid_lid(qp: &Qp, lid: u16, sleep: &MaySleep) -> bool {
    let on_infiniband = |port| port::link_layer(qp.device(), port) == c::IB_LINK_LAYER_INFINIBAND;
    let all_infiniband = match port_of(qp, sleep) {
        Some(port) => on_infiniband(port),
        None => qp.device().ports().all(on_infiniband),
    };
    !all_infiniband || (MULTICAST_LID_BASE..PERMISSIVE_LID).contains(&lid)
}

/// The port of a queue pair that has one already.
fn port_of(qp: &Qp, sleep: &MaySleep) -> Option<u32> {
    let mut attr = QpAttr::zeroed();
    let mask = (c::IB_QP_STATE | c::IB_QP_PORT) as c_int;
    let mut init = pin_init::zeroed();
    super::qp::query(qp, &mut attr, mask, &mut init, sleep).ok()?;
    (attr.raw().qp_state >= c::IB_QPS_INIT).then_some(attr.raw().port_num)
}

/// Checks that a queue pair may be in a group.
fn check(qp: &Qp, gid: GidArgument, lid: u16, sleep: &MaySleep) -> Result<Gid> {
    let gid = gid.0.ok_or(EINVAL)?;
    let valid = gid.is_multicast() && qp.kind() == c::IB_QPT_UD && is_valid_lid(qp, lid, sleep);
    valid.then_some(gid).ok_or(EINVAL)
}

/// Lets a queue pair receive what is sent to a group. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` where the device has no multicast; `EINVAL` for a queue pair that is not UD, a GID that is not multicast, or
/// a LID that is not, on InfiniBand; and what the driver answers.
#[export]
fn ib_attach_mcast(qp: &Qp, gid: GidArgument, lid: u16, sleep: &MaySleep) -> Result {
    let (true, _) = qp.device().has_mcast() else {
        return Err(EOPNOTSUPP);
    };
    let gid = check(qp, gid, lid, sleep)?;
    qp.driver_attach_mcast(gid, lid, sleep)?;
    qp.uses().inc();
    Ok(())
}

/// Ends that. Process context.
///
/// # Errors
///
/// As for `ib_attach_mcast`.
#[export]
fn ib_detach_mcast(qp: &Qp, gid: GidArgument, lid: u16, sleep: &MaySleep) -> Result {
    let (_, true) = qp.device().has_mcast() else {
        return Err(EOPNOTSUPP);
    };
    let gid = check(qp, gid, lid, sleep)?;
    qp.driver_detach_mcast(gid, lid, sleep)?;
    // SAFETY: The driver has ended a membership, which was counted when it began.
    unsafe { qp.uses().dec() };
    Ok(())
}
