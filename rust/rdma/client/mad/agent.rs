// SPDX-License-Identifier: GPL-2.0

//! Agents: registrations with the layer of management datagrams of a port, `struct ib_mad_agent`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::ptr::{from_mut, null_mut, NonNull};

use kernel::{prelude::*, types::ForeignOwnable};
use rdma_bindings::{
    self as bindings, ib_mad_agent, ib_mad_recv_wc, ib_mad_reg_req, ib_mad_send_buf, ib_mad_send_wc,
};

use super::{
    message::{Sent, Token},
    received::Received,
    view::{Address, AgentAh, AgentRef},
};
use crate::{
    client::{attachment::Attached, device::made},
    core::address_vector::AddressVector,
    MaySleep,
};

/// What a client does with the MADs of an agent.
pub trait Handlers: Sized + Send + Sync + 'static {
    /// What a posted message owns, and gives back when it has ended.
    type Token: Token;

    /// A posted message has ended.
    fn sent(&self, token: Self::Token, sent: Sent<Self::Token>, sleep: &MaySleep);

    /// A message was received. An answer comes before its request has ended.
    fn received(&self, agent: &AgentRef<'_>, message: Received, sleep: &MaySleep);
}

/// The special queue pair of an agent's MADs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialQp {
    /// QP0: subnet management.
    Smi,
    /// QP1: general services.
    Gsi,
}

/// The requests that an agent receives.
#[derive(Clone, Copy)]
pub struct Requests {
    /// The management class.
    pub class: u8,
    /// The version of the class.
    pub class_version: u8,
    /// The vendor, in the classes that have one.
    pub oui: [u8; 3],
    /// The methods, one bit each.
    pub methods: [u64; 2],
}

/// The properties of a new agent.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The port.
    pub port: u32,
    /// The queue pair.
    pub qp: SpecialQp,
    /// The requests that it receives; `None`: answers alone.
    pub requests: Option<Requests>,
    /// The version of RMPP; 0: none.
    pub rmpp_version: u8,
    /// Registration flags: `IB_MAD_USER_RMPP`.
    pub flags: u32,
}

/// An agent. Dropping it unregisters it, in process context; not in a handler of its own, which it would wait for.
///
/// # Invariants
///
/// The agent is registered, with the handlers of `H` and `handlers` as their context.
pub struct Agent<H: Handlers> {
    raw: NonNull<ib_mad_agent>,
    /// From `KBox`.
    handlers: NonNull<H>,
    _device: Attached,
}

// SAFETY: The layer synchronises access to an agent, and handlers may be used and dropped by any thread.
unsafe impl<H: Handlers> Send for Agent<H> {}
// SAFETY: The layer synchronises access to an agent, and handlers may be used by several threads at once.
unsafe impl<H: Handlers> Sync for Agent<H> {}

impl<H: Handlers> Agent<H> {
    /// Registers an agent. Its handlers may be called before this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` for wrong properties and for methods that another agent has, `EPROTONOSUPPORT` for a port without the queue pair,
    /// `ENODEV`, `ENOMEM`, `EACCES`.
    pub fn register(
        device: Attached,
        registration: &Registration,
        handlers: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        let handlers = KBox::new(handlers, GFP_KERNEL)?;
        let mut request = registration.requests.map(Requests::to_raw);
        let request = request.as_mut().map_or(null_mut(), from_mut);
        let qp = match registration.qp {
            SpecialQp::Smi => bindings::IB_QPT_SMI,
            SpecialQp::Gsi => bindings::IB_QPT_GSI,
        };
        let context = NonNull::from(KBox::leak(handlers));
        // SAFETY: The device stays, and the client has it, as long as `Attached`. The request is null or valid during the call. The
        // context is valid for the handlers until the agent is unregistered.
        let made = made(unsafe {
            bindings::ib_register_mad_agent(
                device.as_raw(),
                registration.port,
                qp,
                request,
                registration.rmpp_version,
                Some(on_sent::<H>),
                Some(on_received::<H>),
                context.as_ptr().cast(),
                registration.flags,
            )
        });
        match made {
            // INVARIANT: The agent was just registered so.
            Ok(raw) => Ok(Self {
                raw,
                handlers: context,
                _device: device,
            }),
            Err(error) => {
                // SAFETY: No agent has the context, which was leaked above.
                drop(unsafe { KBox::from_raw(context.as_ptr()) });
                Err(error)
            }
        }
    }

    /// The upper half of the transaction IDs of the agent's requests, by which answers find it.
    pub fn hi_tid(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.raw.as_ptr()).hi_tid }
    }

    /// Whether the layer executes RMPP for the agent.
    pub fn has_kernel_rmpp(&self) -> bool {
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_mad_kernel_rmpp_agent(self.raw.as_ptr()) != 0 }
    }

    /// Makes an address handle of an address vector.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub fn address_of(
        &self,
        vector: &AddressVector,
        sleep: &MaySleep,
    ) -> Result<AgentAh<'_, H::Token>> {
        // SAFETY: By the type invariants.
        unsafe { AgentRef::from_raw(self.raw).address_of(vector, sleep) }
    }

    /// Makes an address handle for the answer to a message that was received at the port of the agent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, those of finding the way back and of the driver.
    pub fn address_of_sender(
        &self,
        received: &Received,
        sleep: &MaySleep,
    ) -> Result<AgentAh<'_, H::Token>> {
        self.address_of(&received.sender(self.device(), self.port(), sleep)?, sleep)
    }

    /// The device, as long as the agent.
    pub fn device(&self) -> &crate::core::Device {
        &self._device
    }

    /// The port.
    pub fn port(&self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.raw.as_ptr()).port_num.into() }
    }

    /// Makes an address handle for a message.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid address, `ENOMEM`, those of resolving the address and of the driver.
    pub fn address(&self, address: &Address, sleep: &MaySleep) -> Result<AgentAh<'_, H::Token>> {
        // SAFETY: By the type invariants.
        unsafe { AgentRef::from_raw(self.raw).address(address, sleep) }
    }
}

impl<H: Handlers> Drop for Agent<H> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the agent is registered. When the function returns, no handler runs any more, so the context
        // is free.
        unsafe {
            bindings::ib_unregister_mad_agent(self.raw.as_ptr());
            drop(KBox::from_raw(self.handlers.as_ptr()));
        }
    }
}

impl Requests {
    fn to_raw(self) -> ib_mad_reg_req {
        let mut raw: ib_mad_reg_req = pin_init::zeroed();
        raw.mgmt_class = self.class;
        raw.mgmt_class_version = self.class_version;
        raw.oui = self.oui;
        raw.method_mask = self.methods.map(|bits| bits as usize);
        raw
    }
}

/// # Safety
///
/// The layer calls it with an agent whose context is an `H`, and with a message of the agent that [`Message::post`] has posted and
/// that has ended.
///
/// [`Message::post`]: super::message::Message::post
unsafe extern "C" fn on_sent<H: Handlers>(agent: *mut ib_mad_agent, wc: *mut ib_mad_send_wc) {
    // SAFETY: By the safety requirements: the context is valid until the agent is unregistered, and the message and its token are
    // given back by this call. The layer calls its clients in process context.
    unsafe {
        let handlers = &*(*agent).context.cast::<H>();
        let token = H::Token::from_foreign((*(*wc).send_buf).context[0]);
        token.message_ended();
        let sent = Sent::from_raw((*wc).send_buf, (*wc).status);
        handlers.sent(token, sent, &MaySleep::assume());
    }
}

/// # Safety
///
/// The layer calls it with an agent whose context is an `H`, and gives up the message.
unsafe extern "C" fn on_received<H: Handlers>(
    agent: *mut ib_mad_agent,
    _request: *mut ib_mad_send_buf,
    wc: *mut ib_mad_recv_wc,
) {
    // SAFETY: By the safety requirements: the context is valid, and the agent registered, until this call has returned. The layer calls
    // its clients in process context.
    unsafe {
        let Some(message) = Received::from_raw(wc) else {
            return;
        };
        let handlers = &*(*agent).context.cast::<H>();
        let agent = AgentRef::from_raw(NonNull::new_unchecked(agent));
        handlers.received(&agent, message, &MaySleep::assume());
    }
}
