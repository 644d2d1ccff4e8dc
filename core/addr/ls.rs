// SPDX-License-Identifier: GPL-2.0

//! The local service (`RDMA_NL_LS`): responses of a daemon in user space that resolves addresses and paths.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::{prelude::*, sync::SetOnce};
use kernel_ext::{
    bindings as c,
    net::netlink::{Policy, Request},
};
use rdma::{Gid, MaySleep};

use crate::{addr, netlink::op_of};

/// Policy of the attributes in a response.
static POLICY: [Policy; c::LS_NLA_TYPE_MAX as usize] =
    [const { Policy::NONE }; c::LS_NLA_TYPE_MAX as usize];

/// The handler of an operation.
pub(crate) type Doit = fn(&Request<'_>, &MaySleep) -> Result;

/// Operations of this file; they require CAP_NET_ADMIN.
const OPERATIONS: &[(u32, Doit)] = &[(c::RDMA_NL_LS_OP_IP_RESOLVE, ip_resolved)];

/// Operations of the SA client, which is a level above.
static OF_ADMINISTRATION: SetOnce<&'static [(u32, Doit)]> = SetOnce::new();

/// Sets the operations of the SA client, once.
pub(crate) fn set_operations(operations: &'static [(u32, Doit)]) {
    OF_ADMINISTRATION.populate(operations);
}

/// Handles a message.
///
/// # Errors
///
/// `EINVAL` for an unknown operation, `EPERM`, and errors of the operation.
pub(crate) fn handle(request: &Request<'_>, sleep: &MaySleep) -> Result {
    let wanted = op_of(request.kind());
    let others = OF_ADMINISTRATION.as_ref().copied().unwrap_or(&[]);
    let mut all = [OPERATIONS, others].into_iter().flatten();
    let operation = all.find(|(op, _)| *op == wanted);
    let (_, doit) = operation.ok_or(EINVAL)?;
    if !request.may_admin() {
        return Err(EPERM);
    }
    doit(request, sleep)
}

/// Handles the response with the GID of a destination behind an IB router. An unusable response is ignored.
fn ip_resolved(answer: &Request<'_>, sleep: &MaySleep) -> Result {
    let flags = answer.flags();
    if flags & c::NLM_F_REQUEST != 0 {
        return Err(EPERM);
    }
    if flags & c::RDMA_NL_LS_F_ERR != 0 {
        return Ok(());
    }
    let Ok(attrs) = answer.attrs(&POLICY, false) else {
        return Ok(());
    };
    if let Some(gid) = attrs.array(c::LS_NLA_TYPE_DGID) {
        if !addr::answer(answer.seq(), Gid(gid), sleep) {
            pr_info!("no request for the GID {:02x?}\n", gid);
        }
    }
    Ok(())
}
