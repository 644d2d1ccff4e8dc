// SPDX-License-Identifier: GPL-2.0
// error: no rules expected

//! A second type with the structure by which C names a MAD agent, without a proof that C never gets it.

use rdma::core::mad::agent::AgentBody;

/// Another object.
pub struct Mine {
    body: AgentBody,
}

rdma::embeds!(Mine { body: AgentBody });
