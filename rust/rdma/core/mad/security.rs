// SPDX-License-Identifier: GPL-2.0

//! Security module checks of agents: whether they may manage the subnet, and which P_Keys they may use. Without
//! `CONFIG_SECURITY_INFINIBAND` everything is permitted.
//!
//! C header: `include/linux/security.h`.

use kernel::{error::to_result, prelude::*};
use rdma_bindings as bindings;

use super::agent::AgentBody;
use crate::MaySleep;

impl AgentBody {
    /// Allocates the security state of an agent, which [`Self::forget_security`] frees.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of security modules.
    pub fn note_security(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The agent is being created.
        to_result(unsafe { bindings::ib_mad_security_alloc(self.as_raw()) })
    }

    /// Frees the state of [`Self::note_security`].
    pub fn forget_security(&self, _sleep: &MaySleep) {
        // SAFETY: The agent is being unregistered, and its client does not use it any more.
        unsafe { bindings::ib_mad_security_free(self.as_raw()) };
    }

    /// Whether the agent may manage the subnet. Any context.
    ///
    /// # Errors
    ///
    /// Those of security modules.
    pub fn may_manage_subnet(&self) -> Result {
        // SAFETY: `self` is a valid agent.
        to_result(unsafe { bindings::ib_mad_security_smp(self.as_raw()) })
    }

    /// Whether the agent may use a P_Key of a subnet. Any context.
    ///
    /// # Errors
    ///
    /// Those of security modules.
    pub fn may_use_pkey(&self, subnet_prefix: u64, pkey: u16) -> Result {
        // SAFETY: `self` is a valid agent.
        to_result(unsafe { bindings::ib_mad_security_pkey(self.as_raw(), subnet_prefix, pkey) })
    }
}
