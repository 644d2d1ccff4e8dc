// SPDX-License-Identifier: GPL-2.0

//! Whether an agent may do what it does: on ports of InfiniBand security modules are asked.

use kernel::prelude::*;
use rdma::core::mad::qp::SpecialKind;

use super::state::Agent;
use crate::gid::cache;

/// Whether security modules are asked about an agent.
pub(super) fn is_asked(agent: &Agent) -> bool {
    agent.port.device.is_ib(agent.port.port_num)
}

/// Whether an agent may send or receive with a P_Key.
///
/// # Errors
///
/// `EACCES` and what else security modules answer; `EINVAL` for a P_Key that there is not.
pub(super) fn check(agent: &Agent, pkey_index: u16) -> Result {
    if !is_asked(agent) {
        return Ok(());
    }
    if agent.qp.kind() == SpecialKind::Smi {
        return agent.body.may_manage_subnet().map_err(|_| EACCES);
    }
    let known = cache::of(&agent.port.device, agent.port.port_num).ok_or(EINVAL)?;
    let (pkey, prefix) = known
        .known
        .with(|known| (known.pkey(pkey_index.into()), known.subnet_prefix));
    agent.body.may_use_pkey(prefix, pkey.ok_or(EINVAL)?)
}
