// SPDX-License-Identifier: GPL-2.0

//! Checks of MAD agents by security modules, on InfiniBand ports.
//!
//! C header: `include/linux/security.h`.

use kernel::prelude::*;
use rdma::core::mad::qp::SpecialKind;

use super::state::Agent;
use crate::gid::cache;

/// Whether security modules check an agent.
pub(super) fn is_asked(agent: &Agent) -> bool {
    agent.port.device.is_ib(agent.port.port_num)
}

/// Checks whether an agent may send or receive with a P_Key.
///
/// # Errors
///
/// `EACCES` and other errors of security modules; `EINVAL` for an invalid P_Key index.
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
