// SPDX-License-Identifier: GPL-2.0

//! The queue pair of an identifier: its attributes in each state, and moving it from state to state.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::{
    param::{default_qkey, DefaultQKey},
    port_space::PortSpace,
};
use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    bindings::{
        ib_qp_attr, IB_QPS_ERR, IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS, IB_QPT_UD, IB_QP_ACCESS_FLAGS,
        IB_QP_MIN_RNR_TIMER, IB_QP_PKEY_INDEX, IB_QP_PORT, IB_QP_QKEY, IB_QP_STATE, IB_QP_TIMEOUT,
    },
    error::ENOSYS,
};
use rdma::{
    core::{
        address_vector::pkey_index,
        cma::{
            multicast::Member,
            qp::{Attributes, LockedQp, NewQp},
        },
        qp::QpInitMut,
        Pd,
    },
    MaySleep,
};
use rdma_cma::lower::Lower;

use crate::{
    devices::{manager, Manager},
    id::{Bound, CmId},
};

/// Gives an identifier the Q_Key that its port space has.
///
/// # Errors
///
/// `EADDRNOTAVAIL` if nobody has joined the broadcast group of IPoIB.
pub(crate) fn set_default_qkey(id: &CmId, bound: &Bound) -> Result {
    let qkey = match default_qkey(PortSpace::from_raw(id.body.space())) {
        DefaultQKey::Is(qkey) => qkey,
        DefaultQKey::OfBroadcastGroup => {
            Member::of_broadcast(&bound.device, bound.port, &id.body)?.qkey()
        }
        DefaultQKey::Unchanged => return Ok(()),
    };
    id.with(|inner| inner.qkey = qkey);
    Ok(())
}

/// The attributes of a queue pair of which `ib_cm` knows nothing yet.
fn first_attributes(id: &CmId, bound: &Bound, attr: &mut ib_qp_attr, mask: &mut c_int) -> Result {
    let pkey = match bound.device.is_roce(bound.port) {
        true => u16::MAX,
        false => id.body.pkey(),
    };
    attr.pkey_index = pkey_index(&bound.device, bound.port, pkey)?;
    attr.port_num = bound.port;
    let common = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;
    *mask = common as c_int;
    if id.body.qp_type() == IB_QPT_UD {
        set_default_qkey(id, bound)?;
        attr.qkey = id.with(|inner| inner.qkey);
        *mask |= IB_QP_QKEY as c_int;
    } else {
        attr.qp_access_flags = 0;
        *mask |= IB_QP_ACCESS_FLAGS as c_int;
    }
    Ok(())
}

/// The attributes of a queue pair for the state that is filled in.
///
/// # Errors
///
/// `EINVAL` without a device, `ENOSYS`, those of the managers below.
pub(crate) fn init_attr(
    id: &CmId,
    attr: &mut ib_qp_attr,
    mask: &mut c_int,
    sleep: &MaySleep,
) -> Result {
    let bound = id.device()?;
    let filled = match manager(&bound.device, bound.port) {
        Some(Manager::Ib) => {
            let is_ud = id.body.qp_type() == IB_QPT_UD;
            let filled = id.lower.with(sleep, |lower| match lower {
                Some(Lower::Ib(ib)) if !is_ud => Some(ib.init_qp_attr(attr, mask)),
                Some(Lower::IbListener(_)) if !is_ud => Some(Err(EINVAL)),
                _ => None,
            });
            let filled = filled.unwrap_or_else(|| first_attributes(id, &bound, attr, mask));
            if attr.qp_state == IB_QPS_RTR {
                attr.rq_psn = id.psn;
            }
            filled
        }
        Some(Manager::Iw) => {
            let filled = id.lower.with(sleep, |lower| match lower {
                Some(Lower::Iw(iw)) => iw.init_qp_attr(attr, mask),
                _ => {
                    attr.qp_access_flags = 0;
                    *mask = (IB_QP_STATE | IB_QP_ACCESS_FLAGS) as c_int;
                    Ok(())
                }
            });
            attr.port_num = bound.port;
            *mask |= IB_QP_PORT as c_int;
            filled
        }
        None => Err(ENOSYS),
    };
    let settings = id.settings();
    let has = |mask: c_int, bit: u32| mask & bit as c_int != 0;
    if let (true, Some(timeout)) = (has(*mask, IB_QP_TIMEOUT), settings.ack_timeout) {
        attr.timeout = timeout;
    }
    if let (true, Some(timer)) = (has(*mask, IB_QP_MIN_RNR_TIMER), settings.rnr_timer) {
        attr.min_rnr_timer = timer;
    }
    filled
}

fn attributes(id: &CmId, state: u32, sleep: &MaySleep) -> Result<Attributes> {
    Attributes::for_state(state, |attr, mask| init_attr(id, attr, mask, sleep))
}

/// Lets `f` modify the queue pair, if there is one.
fn modify(id: &CmId, sleep: &MaySleep, f: impl FnOnce(LockedQp<'_>) -> Result) -> Result {
    id.body.with_qp(&id.qp, sleep, |qp| qp.map_or(Ok(()), f))
}

/// Moves the queue pair to RTR, with so many outstanding READs that are received.
pub(crate) fn to_rtr(id: &CmId, responder_resources: Option<u8>, sleep: &MaySleep) -> Result {
    modify(id, sleep, |qp| {
        // The attributes of the first state may have changed since it was created.
        qp.modify(attributes(id, IB_QPS_INIT, sleep)?, sleep)?;
        let mut attr = attributes(id, IB_QPS_RTR, sleep)?;
        if let Some(count) = responder_resources {
            attr.set_max_dest_rd_atomic(count);
        }
        qp.modify(attr, sleep)
    })
}

/// Moves the queue pair to RTS, with so many outstanding READs that are sent.
pub(crate) fn to_rts(id: &CmId, initiator_depth: Option<u8>, sleep: &MaySleep) -> Result {
    modify(id, sleep, |qp| {
        let mut attr = attributes(id, IB_QPS_RTS, sleep)?;
        if let Some(count) = initiator_depth {
            attr.set_max_rd_atomic(count);
        }
        qp.modify(attr, sleep)
    })
}

/// Moves the queue pair to the error state.
pub(crate) fn to_error(id: &CmId, sleep: &MaySleep) -> Result {
    modify(id, sleep, |qp| {
        qp.modify(Attributes::state(IB_QPS_ERR, None), sleep)
    })
}

/// Creates the queue pair of an identifier.
///
/// # Errors
///
/// `EINVAL` for a domain of another device, and those of the verbs.
pub(crate) fn create(id: &CmId, pd: &Pd, init: &QpInitMut<'_>, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    if !core::ptr::eq(bound.device.as_raw(), pd.device().as_raw()) {
        return Err(EINVAL);
    }
    let qp = NewQp::create(pd, init, bound.port, sleep)?;
    let locked = qp.as_locked();
    locked.modify(attributes(id, IB_QPS_INIT, sleep)?, sleep)?;
    if id.body.qp_type() == IB_QPT_UD {
        locked.modify(Attributes::state(IB_QPS_RTR, None), sleep)?;
        locked.modify(Attributes::state(IB_QPS_RTS, Some(0)), sleep)?;
    }
    let (number, has_srq) = qp.numbers();
    id.body.set_qp(qp);
    id.body.set_qp_num(number);
    id.with(|inner| inner.srq = has_srq);
    Ok(())
}
