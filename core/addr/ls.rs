// SPDX-License-Identifier: GPL-2.0

//! The local service: what a program of user space answers that resolves addresses and paths (`RDMA_NL_LS`).
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::{prelude::*, sync::SetOnce};
use kernel_ext::{
    bindings as c,
    net::netlink::{Policy, Request},
};
use rdma::{Gid, MaySleep};

use crate::{addr, netlink::op_of};

/// What attributes of an answer about a GID may be.
static POLICY: [Policy; c::LS_NLA_TYPE_MAX as usize] =
    [const { Policy::NONE }; c::LS_NLA_TYPE_MAX as usize];

/// How an operation is carried out.
pub(crate) type Doit = fn(&Request<'_>, &MaySleep) -> Result;

/// The operations, which are for administrators.
const OPERATIONS: &[(u32, Doit)] = &[(c::RDMA_NL_LS_OP_IP_RESOLVE, ip_resolved)];

/// Those of the client of the subnet administrator, which is above.
static OF_ADMINISTRATION: SetOnce<&'static [(u32, Doit)]> = SetOnce::new();

/// Takes the operations of the client of the subnet administrator, once.
pub(crate) fn set_operations(operations: &'static [(u32, Doit)]) {
    OF_ADMINISTRATION.populate(operations);
}

/// Carries an operation out.
///
/// # Errors
///
/// `EINVAL` where there is no such operation, `EPERM`, and what the operation fails with.
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

/// The GID behind a router of InfiniBand: an answer, which makes no sense as a request. An answer that cannot be used is not
/// told of.
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
            pr_info!("nobody has asked for the GID {:02x?}\n", gid);
        }
    }
    Ok(())
}
