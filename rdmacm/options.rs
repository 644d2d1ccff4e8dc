// SPDX-License-Identifier: GPL-2.0

//! What a client may set of an identifier.
//!
//! C header: `include/rdma/rdma_cm.h`.

use cm_rules::{param::QpType, state::Input};
use kernel::{ffi::c_int, prelude::*};
use kernel_ext::bindings::{
    IB_QPT_RC, IB_QPT_UD, IB_QPT_XRC_INI, IB_QPT_XRC_TGT, RDMA_NODE_IB_CA, RDMA_NODE_RNIC,
    RDMA_NODE_UNSPECIFIED,
};

use crate::{address::error, id::CmId};

/// The type of queue pairs of an identifier.
fn qp_type(id: &CmId) -> QpType {
    match id.body.qp_type() {
        IB_QPT_RC => QpType::Rc,
        IB_QPT_UD => QpType::Ud,
        IB_QPT_XRC_INI => QpType::XrcInitiator,
        IB_QPT_XRC_TGT => QpType::XrcTarget,
        _ => QpType::Other,
    }
}

/// Sets the type of service, of which 8 bits count.
pub(crate) fn set_service_type(id: &CmId, tos: c_int) {
    let tos = tos as u8;
    id.with(|inner| inner.settings.tos = Some(tos));
    id.body.set_tos(tos);
}

/// Sets the time of an acknowledgement: 4.096 µs × 2^n.
///
/// # Errors
///
/// `EINVAL` for a type of queue pairs that has none.
pub(crate) fn set_ack_timeout(id: &CmId, timeout: u8) -> Result {
    qp_type(id).check_ack_timeout().map_err(error)?;
    id.with(|inner| inner.settings.ack_timeout = Some(timeout));
    Ok(())
}

/// Sets the time that a peer waits which finds no receive request.
///
/// # Errors
///
/// `EINVAL` for what is no code, and a type of queue pairs that has none.
pub(crate) fn set_min_rnr_timer(id: &CmId, code: u8) -> Result {
    qp_type(id).check_rnr_timer(code).map_err(error)?;
    id.with(|inner| inner.settings.rnr_timer = Some(code));
    Ok(())
}

/// Says whether others that say so too may have the same address.
///
/// # Errors
///
/// `EINVAL` for a listener, and if it is taken back too late.
pub(crate) fn set_reuse(id: &CmId, reuse: bool) -> Result {
    id.with(|inner| {
        inner.state.check_reuse(reuse).map_err(error)?;
        inner.settings.reuse = reuse;
        Ok(())
    })
}

/// Says whether a wildcard address is of its family alone.
///
/// # Errors
///
/// `EINVAL` too late.
pub(crate) fn set_family_only(id: &CmId, family_only: bool) -> Result {
    id.with(|inner| {
        inner.state.check_family_only().map_err(error)?;
        inner.settings.family_only = family_only;
        inner.settings.has_said_family_only = true;
        Ok(())
    })
}

/// Restricts an identifier to devices of a type: `enum rdma_node_type`.
///
/// # Errors
///
/// `EINVAL` for other types than channel adapters and iWARP adapters, `EALREADY` too late.
pub(crate) fn restrict(id: &CmId, node_type: u8) -> Result {
    let node_type = match u32::from(node_type) {
        RDMA_NODE_UNSPECIFIED => None,
        wanted @ (RDMA_NODE_IB_CA | RDMA_NODE_RNIC) => Some(wanted),
        _ => return Err(EINVAL),
    };
    id.call(Input::Restrict)?;
    id.with(|inner| inner.settings.node_type = node_type);
    Ok(())
}
