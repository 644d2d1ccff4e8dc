// SPDX-License-Identifier: GPL-2.0

//! Security module checks of agents: whether they may manage the subnet, and which P_Keys they may use. Without
//! `CONFIG_SECURITY_INFINIBAND` everything is permitted.
//!
//! C header: `include/linux/security.h`.

use core::sync::atomic::Ordering;

use kernel::{error::to_result, prelude::*};
use rdma_bindings as bindings;

use super::{agent::AgentBody, Embeds};
use crate::MaySleep;

impl AgentBody {
    /// Allocates the security state of a new agent, which goes with the agent.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the agent has one, `ENOMEM`, and those of security modules.
    pub fn note_security<T: Embeds<Body = Self>>(agent: Pin<&mut T>, _sleep: &MaySleep) -> Result {
        let body = agent.into_ref().get_ref().body();
        if body.is_secured() {
            return Err(EEXIST);
        }
        // SAFETY: The agent is borrowed exclusively, and has no security state.
        to_result(unsafe { bindings::ib_mad_security_alloc(body.as_raw()) })?;
        body.secured.store(true, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn is_secured(&self) -> bool {
        self.secured.load(Ordering::Acquire)
    }

    /// Whether the agent may manage the subnet; one without security state may. Any context.
    ///
    /// # Errors
    ///
    /// Those of security modules.
    pub fn may_manage_subnet(&self) -> Result {
        if !self.is_secured() {
            return Ok(());
        }
        // SAFETY: The agent has its security state until it is dropped.
        to_result(unsafe { bindings::ib_mad_security_smp(self.as_raw()) })
    }

    /// Whether the agent may use a P_Key of a subnet; one without security state may. Any context.
    ///
    /// # Errors
    ///
    /// Those of security modules.
    pub fn may_use_pkey(&self, subnet_prefix: u64, pkey: u16) -> Result {
        if !self.is_secured() {
            return Ok(());
        }
        // SAFETY: The agent has its security state until it is dropped.
        to_result(unsafe { bindings::ib_mad_security_pkey(self.as_raw(), subnet_prefix, pkey) })
    }
}

impl Drop for AgentBody {
    fn drop(&mut self) {
        if self.is_secured() {
            // SAFETY: The agent has a security state, and is borrowed exclusively. Any context: the memory is freed.
            unsafe { bindings::ib_mad_security_free(self.as_raw()) };
        }
    }
}
