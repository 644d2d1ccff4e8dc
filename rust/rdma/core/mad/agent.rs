// SPDX-License-Identifier: GPL-2.0

//! MAD agents and the callbacks of their clients: `struct ib_mad_agent`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::{
    pin::Pin,
    ptr::null_mut,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use kernel::{
    ffi::{c_int, c_void},
    sync::{Arc, UniqueArc},
    types::Opaque,
};
use kernel_ext::entry::FromC;
use rdma_bindings::{
    self as bindings, ib_mad_agent, ib_mad_agent_private, ib_mad_port_private, ib_mad_qp_info,
    ib_mad_recv_handler, ib_mad_reg_req, ib_mad_send_handler, ib_mad_send_wc,
};

use super::{
    c_pointer,
    recv::RecvMad,
    send::{Posted, SendBody},
    Body, Embeds,
};
use crate::{
    core::{
        callback::{Context, Handler},
        Device, Qp,
    },
    MaySleep,
};

/// The C structure of an agent, followed by the data that tracepoints read.
#[repr(C)]
pub struct AgentBody {
    private: Opaque<ib_mad_agent_private>,
    request: Opaque<ib_mad_reg_req>,
    qp_info: Opaque<ib_mad_qp_info>,
    port: Opaque<ib_mad_port_private>,
    /// Whether security modules have a state of the agent.
    pub(super) secured: AtomicBool,
}

// SAFETY: Members that change are atomic, or are set before the agent is shared.
unsafe impl Send for AgentBody {}
// SAFETY: Members that change are atomic, or are set before the agent is shared.
unsafe impl Sync for AgentBody {}

// SAFETY: The structure begins with an `ib_mad_agent`.
unsafe impl Body for AgentBody {
    type C = ib_mad_agent;
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for &AgentBody {
    type Raw = *const ib_mad_agent;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is an agent that the core has made, and so points to an
        // `AgentBody`.
        unsafe { &*raw.cast() }
    }
}

/// The handlers of an agent, with their context.
///
/// # Invariants
///
/// The handlers may be called until the agent is unregistered, and find the context in it.
pub struct AgentHandlers {
    /// Called for each MAD that was sent, or whose sending has failed.
    send: ib_mad_send_handler,
    /// Called for each received MAD.
    recv: ib_mad_recv_handler,
    context: *mut c_void,
}

impl AgentHandlers {
    /// The handlers of a client in C.
    pub fn new<'a>(
        send: Handler<'a, ib_mad_send_handler>,
        recv: Handler<'a, ib_mad_recv_handler>,
        context: Context<'a>,
    ) -> Self {
        let (send, _) = send.with(context).parts();
        let (recv, context) = recv.with(context).parts();
        // INVARIANT: By the header the client keeps its handlers and their context until it has unregistered the agent.
        Self {
            send,
            recv,
            context,
        }
    }

    /// No handlers, for an agent of the core itself.
    pub const NONE: Self = Self {
        send: None,
        recv: None,
        context: null_mut(),
    };
}

/// The properties of a new agent.
pub struct AgentInit<'a> {
    /// The device.
    pub device: &'a Device,
    /// The special queue pair of the agent's MADs.
    pub qp: &'a Qp,
    /// The port.
    pub port_num: u32,
    /// The version of RMPP; 0: none.
    pub rmpp_version: u8,
    /// `IB_MAD_USER_RMPP`.
    pub flags: u32,
}

impl AgentBody {
    /// Creates an agent without a number.
    pub fn new(
        init: &AgentInit<'_>,
        request: Option<RegistrationRequest>,
        handlers: AgentHandlers,
    ) -> Self {
        let mut agent: ib_mad_agent = pin_init::zeroed();
        agent.device = init.device.as_raw();
        agent.qp = init.qp.as_raw();
        agent.send_handler = handlers.send;
        agent.recv_handler = handlers.recv;
        agent.context = handlers.context;
        agent.flags = init.flags;
        // The header's member has 8 bits.
        agent.port_num = init.port_num as u8;
        agent.rmpp_version = init.rmpp_version;
        let mut private: ib_mad_agent_private = pin_init::zeroed();
        private.agent = agent;
        Self {
            private: Opaque::new(private),
            request: Opaque::new(request.map_or(pin_init::zeroed(), |request| request.0)),
            qp_info: Opaque::new(ib_mad_qp_info {
                port_priv: null_mut(),
                qp: init.qp.as_raw(),
            }),
            port: Opaque::new(ib_mad_port_private {
                device: init.device.as_raw(),
                port_num: init.port_num as c_int,
            }),
            secured: AtomicBool::new(false),
        }
    }

    /// Sets the links between the structures that tracepoints read.
    pub fn link<T: Embeds<Body = Self>>(agent: Pin<&mut T>, has_request: bool) {
        let body = agent.into_ref().get_ref().body();
        // SAFETY: The agent is pinned, and is borrowed exclusively, so the members have no readers.
        unsafe {
            let private = body.private.get();
            (*body.qp_info.get()).port_priv = body.port.get();
            (*private).qp_info = body.qp_info.get();
            if has_request {
                (*private).reg_req = body.request.get();
            }
        }
    }

    /// The structure of C.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_mad_agent {
        self.private.get().cast()
    }

    /// The argument of tracepoints.
    #[inline]
    pub(super) fn as_private(&self) -> *mut ib_mad_agent_private {
        self.private.get()
    }

    /// The queue pair argument of tracepoints.
    #[inline]
    pub(super) fn qp_info(&self) -> *mut ib_mad_qp_info {
        self.qp_info.get()
    }

    /// The agent's number: the upper half of the transaction IDs of its requests.
    #[inline]
    pub fn hi_tid(&self) -> u32 {
        self.number().load(Ordering::Relaxed)
    }

    /// Sets the agent's number, before its client gets the agent.
    pub fn set_hi_tid(&self, hi_tid: u32) {
        self.number().store(hi_tid, Ordering::Relaxed);
    }

    fn number(&self) -> &AtomicU32 {
        // SAFETY: The member is valid as long as `self`, and aligned; C only reads it.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.as_raw()).hi_tid) }
    }

    /// The version of RMPP; 0: none. Constant.
    #[inline]
    pub fn rmpp_version(&self) -> u8 {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).rmpp_version }
    }

    /// Whether the core executes RMPP for the client. Constant.
    #[inline]
    pub fn is_kernel_rmpp(&self) -> bool {
        // SAFETY: The member is constant.
        let flags = unsafe { (*self.as_raw()).flags };
        self.rmpp_version() != 0 && flags & bindings::IB_MAD_USER_RMPP == 0
    }

    /// Whether the client has a receive handler. Constant.
    #[inline]
    pub fn has_recv_handler(&self) -> bool {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).recv_handler.is_some() }
    }

    /// Whether the client has a send handler. Constant.
    #[inline]
    pub fn has_send_handler(&self) -> bool {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).send_handler.is_some() }
    }
}

/// A use of an agent, during which the handlers of its client may be called.
///
/// # Safety
///
/// The client's unregistering of the agent does not return as long as the value exists.
pub unsafe trait AgentInUse {
    /// The object that has the agent.
    type Agent: Embeds<Body = AgentBody>;

    /// The agent.
    fn agent(&self) -> &Arc<Self::Agent>;
}

/// A MAD to be sent, with a use of its agent.
///
/// # Safety
///
/// The use is a member, of which [`Self::agent`] returns a reference, and which never changes. C gets the MAD only as a client of
/// that agent.
pub unsafe trait OfAgent: Embeds<Body = SendBody> {
    /// The use.
    type Use: AgentInUse;

    /// The agent that sends it.
    fn agent(&self) -> &Self::Use;
}

/// Sets the agent of a new MAD, and where its bytes are, for C.
pub fn set_agent<S: OfAgent>(send: &mut Pin<UniqueArc<S>>) {
    let send = send.as_ref();
    let agent = c_pointer(send.agent().agent());
    let (raw, memory) = (send.body().as_raw(), send.body().memory());
    // SAFETY: The only reference to the MAD is borrowed exclusively, and it is pinned. By the safety requirements of `OfAgent` the agent
    // stays as long as the MAD.
    unsafe {
        (*raw).mad_agent = agent;
        (*raw).mad = memory.cast();
    }
}

/// Calls the send handler for a posted MAD, which the client owns again from now on. A MAD that a queue pair still has stays with
/// the layer.
pub fn tell_sent<S: OfAgent>(posted: Posted<S>, status: u32, vendor_err: u32, _sleep: &MaySleep) {
    let Some(send) = posted.end() else {
        kernel::pr_warn_once!("a MAD that has ended is in use\n");
        return;
    };
    let agent = send.agent().agent().body().as_raw();
    let mut told = ib_mad_send_wc {
        send_buf: c_pointer(&send),
        status,
        vendor_err,
    };
    // SAFETY: The handler is constant, and by the safety requirements of `AgentInUse` it is valid as long as `send`. The post has
    // ended without other holders, so that the MAD is returned to the client once per post.
    unsafe {
        if let Some(handler) = (*agent).send_handler {
            handler(agent, &mut told);
        }
    }
}

/// Calls the receive handler for a MAD, with the request of the agent that it answers, if any.
pub fn tell_received<S: OfAgent>(
    agent: &impl AgentInUse,
    request: Option<&Arc<S>>,
    mad: RecvMad,
    _sleep: &MaySleep,
) {
    let agent = agent.agent().body().as_raw();
    let request = request.filter(|request| request.agent().agent().body().as_raw() == agent);
    // SAFETY: The handler is constant, and by the safety requirements of `AgentInUse` it is valid during the call. The client owns
    // the MAD from now on, and the request is valid during the call.
    unsafe {
        if let Some(handler) = (*agent).recv_handler {
            let request = request.map_or(null_mut(), |request| c_pointer(request));
            handler(agent, request, mad.into_raw());
        }
    }
}

/// The requests that an agent registers for: `struct ib_mad_reg_req`.
#[derive(Clone, Copy)]
pub struct RegistrationRequest(ib_mad_reg_req);

impl RegistrationRequest {
    /// The management class.
    pub fn mgmt_class(&self) -> u8 {
        self.0.mgmt_class
    }

    /// The version of the class.
    pub fn class_version(&self) -> u8 {
        self.0.mgmt_class_version
    }

    /// The vendor, for the classes that have one.
    pub fn oui(&self) -> [u8; 3] {
        self.0.oui
    }

    /// The methods of requests, one bit per method.
    pub fn methods(&self) -> u128 {
        let [low, high] = self.0.method_mask;
        low as u128 | (high as u128) << 64
    }
}

/// The registration as an argument of C; null for an agent that gets no requests.
pub struct RegistrationArgument(pub Option<RegistrationRequest>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for RegistrationArgument {
    type Raw = *mut ib_mad_reg_req;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid.
        Self(unsafe { raw.as_ref() }.map(|raw| RegistrationRequest(*raw)))
    }
}

/// A flag as a number: 0 or 1.
#[inline]
pub fn truth(flag: bool) -> c_int {
    flag.into()
}
