// SPDX-License-Identifier: GPL-2.0

//! Agents without their handlers, and address handles for their messages.
//!
//! C headers: `include/rdma/ib_mad.h`, `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_ah, ib_mad_agent};

use crate::{
    abi::ah::GlobalRoute,
    client::device::made,
    core::{address_vector::AddressVector, Device},
    MaySleep,
};

/// The destination of a message.
#[derive(Clone, Copy)]
pub struct Address {
    /// The LID, for InfiniBand.
    pub lid: u16,
    /// The service level.
    pub sl: u8,
    /// The path bits of the source LID, for InfiniBand.
    pub path_bits: u8,
    /// The global route; RoCE has no other.
    pub route: Option<GlobalRoute>,
}

/// An agent, in a call of one of its handlers.
///
/// # Invariants
///
/// The agent is registered for `'a`.
pub struct AgentRef<'a> {
    raw: NonNull<ib_mad_agent>,
    _agent: PhantomData<&'a ()>,
}

// SAFETY: The layer synchronises access to an agent.
unsafe impl Send for AgentRef<'_> {}
// SAFETY: The layer synchronises access to an agent.
unsafe impl Sync for AgentRef<'_> {}

impl<'a> AgentRef<'a> {
    /// The agent of a pointer.
    ///
    /// # Safety
    ///
    /// The agent is registered for `'a`.
    pub(super) unsafe fn from_raw(raw: NonNull<ib_mad_agent>) -> Self {
        Self {
            raw,
            _agent: PhantomData,
        }
    }

    /// The C structure.
    pub(super) fn as_raw(&self) -> *mut ib_mad_agent {
        self.raw.as_ptr()
    }

    /// Makes an address handle for a message.
    ///
    /// # Safety
    ///
    /// The handlers of the agent have tokens of the type `T`.
    pub(super) unsafe fn address<T>(
        self,
        address: &Address,
        sleep: &MaySleep,
    ) -> Result<AgentAh<'a, T>> {
        sleep.check();
        let mut attr: bindings::rdma_ah_attr = pin_init::zeroed();
        attr.sl = address.sl;
        attr.port_num = self.port();
        if let Some(route) = &address.route {
            attr.ah_flags = bindings::IB_AH_GRH as u8;
            attr.grh.dgid = route.dgid.to_raw();
            attr.grh.flow_label = route.flow_label;
            attr.grh.sgid_index = route.sgid_index;
            attr.grh.hop_limit = route.hop_limit;
            attr.grh.traffic_class = route.traffic_class;
        }
        // SAFETY: By the type invariants the agent is valid, with a queue pair and its domain. The function copies the address.
        let raw = made(unsafe {
            attr.type_ = bindings::rdma_ah_find_type(self.device().as_raw(), self.port());
            bindings::rdma_ah_set_dlid(&mut attr, address.lid.into());
            bindings::rdma_ah_set_path_bits(&mut attr, address.path_bits);
            let pd = (*(*self.as_raw()).qp).pd;
            bindings::rdma_create_user_ah(pd, &mut attr, null_mut())
        })?;
        // INVARIANT: The handle was just made, in the domain of this agent.
        Ok(AgentAh {
            raw,
            agent: self,
            _token: PhantomData,
        })
    }

    /// Makes an address handle of an address vector.
    ///
    /// # Safety
    ///
    /// The handlers of the agent have tokens of the type `T`.
    pub(super) unsafe fn address_of<T>(
        self,
        vector: &AddressVector,
        sleep: &MaySleep,
    ) -> Result<AgentAh<'a, T>> {
        sleep.check();
        let flags = bindings::RDMA_CREATE_AH_SLEEPABLE;
        // SAFETY: By the type invariants the agent is valid, with a queue pair and its domain. The function copies the address.
        let raw = made(vector.lend(|vector| unsafe {
            bindings::rdma_create_ah((*(*self.as_raw()).qp).pd, vector, flags)
        }))?;
        // INVARIANT: The handle was just made, in the domain of this agent.
        Ok(AgentAh {
            raw,
            agent: self,
            _token: PhantomData,
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        // SAFETY: By the type invariants; the member is constant, and the device stays as long as its agents.
        unsafe { &*(*self.raw.as_ptr()).device.cast() }
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.raw.as_ptr()).port_num.into() }
    }
}

/// An address handle for a message of an agent, whose messages own tokens of the type `T`.
///
/// # Invariants
///
/// `self` owns the handle, which is in the domain of the agent's queue pair. The handlers of the agent have this type of tokens.
pub struct AgentAh<'a, T> {
    raw: NonNull<ib_ah>,
    agent: AgentRef<'a>,
    _token: PhantomData<fn() -> T>,
}

// SAFETY: Address handles may be used and destroyed by any thread.
unsafe impl<T> Send for AgentAh<'_, T> {}
// SAFETY: Address handles may be used by several threads at once.
unsafe impl<T> Sync for AgentAh<'_, T> {}

impl<T> AgentAh<'_, T> {
    pub(super) fn agent(&self) -> &AgentRef<'_> {
        &self.agent
    }

    /// Hands the handle over.
    pub(super) fn into_raw(self) -> *mut ib_ah {
        core::mem::ManuallyDrop::new(self).raw.as_ptr()
    }
}

impl<T> Drop for AgentAh<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { destroy_ah(self.raw.as_ptr()) };
    }
}

/// Destroys an address handle, in process context.
///
/// # Safety
///
/// The handle is given up, and no message uses it.
pub(super) unsafe fn destroy_ah(raw: *mut ib_ah) {
    let flags = bindings::RDMA_DESTROY_AH_SLEEPABLE;
    // SAFETY: By the safety requirements.
    let destroyed = to_result(unsafe { bindings::rdma_destroy_ah_user(raw, flags, null_mut()) });
    if let Err(error) = destroyed {
        kernel::pr_warn_once!("a driver does not destroy an address handle: {:?}\n", error);
    }
}
