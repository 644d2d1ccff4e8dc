// SPDX-License-Identifier: GPL-2.0

//! What security modules say of agents: whether they may manage the subnet, and which P_Keys they may use. Where the kernel
//! asks none about InfiniBand, all may do all.
//!
//! C header: `include/linux/security.h`.

use kernel::{error::to_result, prelude::*};
use rdma_bindings as bindings;

use super::agent::AgentBody;
use crate::MaySleep;

impl AgentBody {
    /// Lets security modules know of an agent: to be taken back by [`Self::forget_security`].
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what they answer.
    pub fn note_security(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: The agent is being made.
        to_result(unsafe { bindings::ib_mad_security_alloc(self.as_raw()) })
    }

    /// Ends what [`Self::note_security`] has begun.
    pub fn forget_security(&self, _sleep: &MaySleep) {
        // SAFETY: The agent goes; its client does not use it any more.
        unsafe { bindings::ib_mad_security_free(self.as_raw()) };
    }

    /// Whether the agent may manage the subnet. Any context.
    ///
    /// # Errors
    ///
    /// What security modules answer.
    pub fn may_manage_subnet(&self) -> Result {
        // SAFETY: The agent is there.
        to_result(unsafe { bindings::ib_mad_security_smp(self.as_raw()) })
    }

    /// Whether the agent may use a P_Key of a subnet. Any context.
    ///
    /// # Errors
    ///
    /// What security modules answer.
    pub fn may_use_pkey(&self, subnet_prefix: u64, pkey: u16) -> Result {
        // SAFETY: The agent is there.
        to_result(unsafe { bindings::ib_mad_security_pkey(self.as_raw(), subnet_prefix, pkey) })
    }
}
