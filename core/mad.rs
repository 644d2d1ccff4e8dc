// SPDX-License-Identifier: GPL-2.0

//! Management datagrams (MADs): the special queue pairs, their agents, directed-route SMPs and RMPP.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | this one | exported functions |
//! | [`port`] | opening and closing ports |
//! | [`receive`] | the way of a received MAD to its agent |
//! | [`agent`] | registering and unregistering agents |
//! | [`timeout`] | the work of an agent: retries and timeouts |
//! | [`respond`] | responses that the core sends itself |
//! | [`rmpp`] | messages of more than one MAD (RMPP) |
//! | [`post`] | posting and canceling MADs |
//! | [`complete`] | completing posted MADs |
//! | [`local`] | SMPs that are handled by the local node; [`smi`]: directed routes |
//! | [`dispatch`], [`matching`] | finding the agent of a request, and the request of a response |
//! | [`security`] | calls of security modules |
//! | [`build`], [`transmit`] | allocating MADs; posting them to the queue pair |
//! | [`outbox`] | the MADs that wait for room in a queue pair |
//! | [`registry`] | the open ports, and the agents by number |
//! | [`state`] | data of ports, agents, MADs |
//! | [`header`], [`depths`] | the headers; the sizes of the queues |
//!
//! Handlers of clients run in process context, never from the call chain of a function here. MADs may be posted and
//! canceled in any context.
//!
//! C header: `include/rdma/ib_mad.h`. IBTA specification, volume 1, chapters 13 and 14.

pub(crate) mod agent;
pub(crate) mod build;
mod complete;
mod depths;
mod dispatch;
mod double_sided;
pub(crate) mod header;
mod local;
mod matching;
mod outbox;
mod port;
pub(crate) mod post;
mod receive;
mod registry;
mod respond;
mod rmpp;
mod security;
mod segment;
mod smi;
pub(crate) mod state;
mod timeout;
mod transmit;

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::{bindings as c, entry::Input, export::export};
use rdma::{
    client::registration::Registration,
    core::{
        callback::{Context, Handler},
        mad::{
            agent::{truth, AgentBody, AgentHandlers, RegistrationArgument},
            qp::SpecialKind,
            recv::RecvMad,
            send::{BadSend, Chain, SendFlags},
            ArcOrErr, Borrowed, MaybeBorrowed, OwnedArg,
        },
        Device,
    },
    MaySleep,
};

use agent::AgentAttr;
use header::Header;
use state::{Agent, Client, Origin, SendMad};

/// Keeps the ports of all devices open for MADs until it is dropped.
pub(crate) struct Ports(
    #[expect(dead_code, reason = "dropping it closes the ports")] Registration<port::Ports>,
);

/// Opens the ports of all devices. Called once when the module is loaded, before clients register.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start(sleep: &MaySleep) -> Result<Ports> {
    Ok(Ports(port::start_client(sleep)?))
}

/// The special queue pair of a type, `enum ib_qp_type`.
fn kind_of(qp_type: u32) -> Option<SpecialKind> {
    let kinds = [SpecialKind::Smi, SpecialKind::Gsi];
    kinds.into_iter().find(|kind| kind.qp_type() == qp_type)
}

/// Registers an agent at a port. Without `mad_reg_req` it receives responses only. Process context.
///
/// # Errors
///
/// `EPROTONOSUPPORT` where the port has no such queue pair; `EINVAL` for an invalid request, or one that overlaps with
/// another agent's; `ENODEV` where the port is not open; `ENOMEM`, also where eight vendors of the class have agents;
/// errors of security modules.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_register_mad_agent(
    device: &Device,
    port_num: u32,
    qp_type: c::ib_qp_type,
    mad_reg_req: RegistrationArgument,
    rmpp_version: u8,
    send_handler: Handler<'_, c::ib_mad_send_handler>,
    recv_handler: Handler<'_, c::ib_mad_recv_handler>,
    context: Context<'_>,
    registration_flags: u32,
    sleep: &MaySleep,
) -> ArcOrErr<Agent> {
    let Some(kind) = kind_of(qp_type) else {
        return ArcOrErr(Err(EINVAL));
    };
    let wanted = AgentAttr {
        kind,
        request: mad_reg_req.0,
        rmpp_version,
        flags: registration_flags,
        receives: recv_handler.is_some(),
        sends: send_handler.is_some(),
    };
    let handlers = AgentHandlers::new(send_handler, recv_handler, context);
    ArcOrErr(agent::register(
        device,
        port_num,
        &wanted,
        Client::C,
        handlers,
        sleep,
    ))
}

/// Unregisters an agent. When this returns, its handlers do not run and all its MADs have been returned. Process
/// context, not from a handler.
#[export]
fn ib_unregister_mad_agent(mad_agent: OwnedArg<Agent>, sleep: &MaySleep) {
    agent::unregister(&mad_agent.0, sleep);
}

/// Allocates a zeroed MAD to be sent. `base_version` is that of InfiniBand or of Omni-Path. Sleeps only if `gfp_mask`
/// allows it.
///
/// # Errors
///
/// `EINVAL` for invalid lengths, and for RMPP where the core does not do it for the agent; `ENOMEM`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_create_send_mad(
    mad_agent: Borrowed<'_, Agent>,
    remote_qpn: u32,
    pkey_index: u16,
    rmpp_active: c_int,
    hdr_len: c_int,
    data_len: c_int,
    gfp_mask: SendFlags<'_>,
    base_version: u8,
) -> ArcOrErr<SendMad> {
    let lengths =
        usize::try_from(hdr_len).and_then(|header| Ok((header, usize::try_from(data_len)?)));
    let Ok((header, data)) = lengths else {
        return ArcOrErr(Err(EINVAL));
    };
    let wanted = build::SendBufAttr {
        remote_qpn,
        pkey_index,
        rmpp: rmpp_active != 0,
        header,
        data,
        opa: base_version == header::OPA_BASE_VERSION,
    };
    ArcOrErr(build::new(&mad_agent.hold(), &wanted, None, gfp_mask.get()))
}

/// Frees a MAD that is not posted. Any context.
#[export]
fn ib_free_send_mad(send_buf: OwnedArg<SendMad>) {
    drop(send_buf);
}

/// Posts a list of MADs. Each is returned to the agent's handler once, except for the one named in `bad_send_buf` and
/// those after it. Any context.
///
/// # Errors
///
/// `EINVAL` for an agent without a handler, a class without RMPP on an agent with it, a MAD without an address, a MAD
/// that is posted already, or an invalid directed route; `EACCES`; `ENOMEM`, and errors of the driver.
#[export]
fn ib_post_send_mad(send_buf: Chain<'_, SendMad>, bad_send_buf: BadSend<'_>) -> Result {
    let mut chain = send_buf;
    let mut result = Err(EINVAL);
    while let Some(first) = chain.take_first() {
        let posted = match first {
            Ok(posted) => posted,
            Err(twice) => return Err(bad_send_buf.refuse(&twice)),
        };
        let send = posted.send().clone();
        result = match send.agent.body.has_send_handler() {
            true => post::post(Origin::Client(posted)),
            false => {
                drop(posted);
                Err(EINVAL)
            }
        };
        if let Err(error) = result {
            return bad_send_buf.give_back(&send, error);
        }
    }
    result
}

/// Frees a received MAD with all its segments. Any context.
#[export]
fn ib_free_recv_mad(mad_recv_wc: RecvMad) {
    drop(mad_recv_wc);
}

/// Changes the response timeout of a posted MAD, in milliseconds; 0 cancels it. Any context.
///
/// # Errors
///
/// `EINVAL` for a MAD that is not posted, or was canceled.
#[export]
fn ib_modify_mad(send_buf: MaybeBorrowed<'_, SendMad>, timeout_ms: u32) -> Result {
    let send = send_buf.0.ok_or(EINVAL)?;
    post::modify(&send, timeout_ms)
}

/// Says whether a MAD is a response: 1, or 0. Any context.
#[export]
fn ib_response_mad(hdr: Input<'_, c::ib_mad_hdr>) -> c_int {
    let header = Header {
        base_version: hdr.base_version,
        mgmt_class: hdr.mgmt_class,
        class_version: hdr.class_version,
        method: hdr.method,
        status: u16::from_be(hdr.status),
        tid: u64::from_be(hdr.tid),
        attr_id: u16::from_be(hdr.attr_id),
        attr_mod: u32::from_be(hdr.attr_mod),
    };
    truth(header.is_response())
}

/// Says whether MADs of a class may have a header of RMPP: 1, or 0. Any context.
#[export]
fn ib_is_mad_class_rmpp(mgmt_class: u8) -> c_int {
    truth(header::has_rmpp(mgmt_class))
}

/// Says where the data of MADs of a class begins, in bytes. Any context.
#[export]
fn ib_get_mad_data_offset(mgmt_class: u8) -> c_int {
    header::data_offset(mgmt_class) as c_int
}

/// Returns the buffer of a segment of an RMPP message, counted from 1; null if there is no such segment. Any context.
#[export]
fn ib_get_rmpp_segment(send_buf: Borrowed<'_, SendMad>, seg_num: c_int) -> *mut c_void {
    let nth = usize::try_from(seg_num)
        .ok()
        .and_then(|number| number.checked_sub(1));
    let segment = nth.and_then(|nth| send_buf.body.segment(nth));
    segment.map_or(core::ptr::null_mut(), |segment| segment.cast())
}

/// Says whether the core does RMPP for an agent: 1, or 0. Any context.
#[export]
fn ib_mad_kernel_rmpp_agent(agent: &AgentBody) -> c_int {
    truth(agent.is_kernel_rmpp())
}
