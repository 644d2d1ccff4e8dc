// SPDX-License-Identifier: GPL-2.0

//! Attaching queue pairs to multicast groups.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_attach_mcast`).

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, error::EOPNOTSUPP, export::export};
use rdma::{
    core::{gid::GidArgument, Qp},
    Gid, MaySleep,
};

use crate::registry::port;

/// The first multicast LID.
const MULTICAST_LID_BASE: u16 = 0xc000;

/// The permissive LID, which is not a multicast LID.
const PERMISSIVE_LID: u16 = 0xffff;

/// Whether a LID is valid for a group.
///
/// RoCE has no LIDs (RoCE annex): any LID is valid on a RoCE port, or if the queue pair's port may be one.
fn is_valid_lid(qp: &Qp, lid: u16, sleep: &MaySleep) -> bool {
    let on_infiniband = |port| port::link_layer(qp.device(), port) == c::IB_LINK_LAYER_INFINIBAND;
    let all_infiniband = match port_of(qp, sleep) {
        Some(port) => on_infiniband(port),
        None => qp.device().ports().all(on_infiniband),
    };
    !all_infiniband || (MULTICAST_LID_BASE..PERMISSIVE_LID).contains(&lid)
}

/// The port of a queue pair, if it has one yet.
fn port_of(qp: &Qp, sleep: &MaySleep) -> Option<u32> {
    let mut attr = pin_init::zeroed();
    let mask = (c::IB_QP_STATE | c::IB_QP_PORT) as c_int;
    let mut init = pin_init::zeroed();
    super::qp::query(qp, &mut attr, mask, &mut init, sleep).ok()?;
    (attr.qp_state >= c::IB_QPS_INIT).then_some(attr.port_num)
}

/// Validates the arguments of an attach or detach.
fn check(qp: &Qp, gid: GidArgument, lid: u16, sleep: &MaySleep) -> Result<Gid> {
    let gid = gid.0.ok_or(EINVAL)?;
    let valid = gid.is_multicast() && qp.kind() == c::IB_QPT_UD && is_valid_lid(qp, lid, sleep);
    valid.then_some(gid).ok_or(EINVAL)
}

/// Attaches a queue pair to a multicast group. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` where the device has no multicast; `EINVAL` for a queue pair that is not UD, a GID that is not
/// multicast, or, on InfiniBand, a LID that is not multicast; and errors of the driver.
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

/// Detaches a queue pair from a multicast group. Process context.
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
