// SPDX-License-Identifier: GPL-2.0

//! Received MADs: from the queue pair to an agent.
//!
//! Steps: directed-route SMPs may be forwarded; the driver may process a MAD; the agent of the transaction or the class
//! receives it; a request without an agent is answered with "unsupported".
//!
//! IBTA specification, volume 1, sections 13.4 and 13.5.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings as c;
use rdma::{
    abi::mad::MadResult,
    core::mad::{
        qp::{MadLayer, SpecialKind, SpecialQp},
        recv::RecvMad,
        send::Addressed,
        trace,
    },
    MaySleep,
};

use super::{
    complete, dispatch,
    header::{
        class, has_rmpp, method, Header, Rmpp, BASE_VERSION, CLASS_PORT_INFO, MAD_HEADER, MAD_SIZE,
        OPA_BASE_VERSION, RMPP_AT,
    },
    local::{is_opa_smp, set_length},
    matching,
    outbox::Queue,
    registry::{self, OpenPort},
    respond, rmpp, security,
    smi::{self, Action, Forward, Node, Smp},
    state::{Agent, AgentUse, Layer, SendMad},
};

impl MadLayer for Layer {
    type Send = SendMad;
    type Queue = Queue;

    fn sent(qp: &Arc<SpecialQp<Self>>, send: Addressed<SendMad>, wc: &c::ib_wc, sleep: &MaySleep) {
        complete::sent(qp, send, wc, sleep);
    }

    fn received(qp: &SpecialQp<Self>, mad: RecvMad, sleep: &MaySleep) {
        // A port that is closed receives nothing; a queue pair in error is about to be destroyed and is not refilled.
        if mad.wc().status != c::IB_WC_SUCCESS {
            return;
        }
        if let Some(open) = registry::find_port(qp.device(), qp.queue.port_num) {
            receive(&open, qp, mad, sleep);
        }
    }
}

/// Length of a received MAD, in bytes.
fn received_length(mad: &RecvMad) -> usize {
    let bytes = mad.wc().byte_len as usize;
    bytes
        .saturating_sub(size_of::<c::ib_grh>())
        .min(mad.mad().len())
}

/// Whether a MAD is valid on a queue pair.
fn is_valid(open: &OpenPort, kind: SpecialKind, header: &Header) -> bool {
    let is_known = header.base_version == BASE_VERSION
        || open.port.is_opa && header.base_version == OPA_BASE_VERSION;
    // The CM class has only the method Send, except for ClassPortInfo.
    let is_cm = header.mgmt_class == class::CM
        && header.attr_id != CLASS_PORT_INFO
        && header.method != method::SEND;
    is_known && !is_cm && header.is_smp() == (kind == SpecialKind::Smi)
}

/// Handles a received MAD, and posts a new receive buffer.
fn receive(open: &OpenPort, qp: &SpecialQp<Layer>, mut mad: RecvMad, sleep: &MaySleep) {
    let length = received_length(&mad);
    mad.clear_from(length);
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let size = open.port.mad_size;
    // Without memory for a new buffer, this MAD is dropped and its buffer reused.
    let next = match is_valid(open, qp.kind(), &header) && length >= MAD_HEADER {
        true => RecvMad::new(size, GFP_KERNEL),
        false => Err(EINVAL),
    };
    let Ok(mut answer) = next else {
        let _ = qp.post_recv(mad);
        return;
    };
    set_length(&open.port, &mut mad, length);
    qp.with(|raw| {
        let at = trace::ReceivedAt {
            device: &open.port.device,
            port_num: open.port.port_num,
            qp: raw,
        };
        trace::ib_mad_recv_done_handler(&at, mad.wc(), &mad);
    });
    if let Some(mad) = handle(open, qp, mad, &mut answer, sleep) {
        give(open, qp, mad, &mut answer, sleep);
    }
    if let Err(error) = qp.post_recv(answer) {
        pr_debug!("no memory is posted to receive a MAD: {:?}\n", error);
    }
}

/// The node and ingress port of a MAD, for directed routes.
fn node_of(open: &OpenPort, mad: &RecvMad) -> Node {
    let device = &open.port.device;
    let is_switch = device.is_switch();
    Node {
        is_switch,
        port: if is_switch {
            mad.wc().port_num
        } else {
            open.port.port_num
        },
        ports: device.phys_port_cnt(),
    }
}

/// Next hop of a directed-route SMP.
enum SmpRoute {
    /// It is discarded.
    Nowhere,
    /// It is for this node.
    Here,
    /// It leaves by a port of this switch.
    Through(u32),
}

/// Updates the route of a received directed-route SMP.
fn take_smp(open: &OpenPort, mad: &mut RecvMad, node: Node) -> SmpRoute {
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let is_opa = is_opa_smp(&open.port, &header);
    match is_opa {
        true => trace::ib_mad_handle_opa_smi(mad),
        false => trace::ib_mad_handle_ib_smi(mad),
    }
    let layout = if is_opa { &smi::OPA } else { &smi::IB };
    let mut smp = Smp::new(mad.mad_mut(), layout);
    if smp.take_received(node) == Action::Discard {
        return SmpRoute::Nowhere;
    }
    match smp.forward() {
        Forward::Local => SmpRoute::Here,
        Forward::Send => {
            let sent = smp.prepare_send(node) == Action::Handle;
            match sent && open.port.device.has_process_mad() && smp.is_for_here() {
                true => SmpRoute::Here,
                false => SmpRoute::Nowhere,
            }
        }
        Forward::Onward if node.is_switch => SmpRoute::Through(smp.forward_port()),
        Forward::Onward => SmpRoute::Here,
    }
}

/// The agent that responds on a queue pair; on a switch that of port 0.
fn switch_responder(open: &OpenPort, kind: SpecialKind) -> Option<Arc<Agent>> {
    if open.port.device.is_switch() {
        let zero = registry::find_port(&open.port.device, 0)?;
        return zero.responder(kind).cloned();
    }
    open.responder(kind).cloned()
}

/// Directed routing and processing by the driver. Returns the MAD if it is for an agent.
fn handle(
    open: &OpenPort,
    qp: &SpecialQp<Layer>,
    mut mad: RecvMad,
    answer: &mut RecvMad,
    sleep: &MaySleep,
) -> Option<RecvMad> {
    let node = node_of(open, &mad);
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let way = match header.is_directed_route() {
        true => take_smp(open, &mut mad, node),
        false => SmpRoute::Here,
    };
    match way {
        SmpRoute::Here => (),
        SmpRoute::Nowhere => return None,
        SmpRoute::Through(port) => {
            let responder = switch_responder(open, qp.kind());
            let length = mad.length();
            respond::answer(responder.as_ref(), &mad, None, (port, length), sleep);
            return None;
        }
    }
    let (device, port_num) = (&open.port.device, open.port.port_num);
    let processed = qp.driver_process(device, &mad, None, port_num, answer);
    let Some((result, length, pkey_index)) = processed else {
        return Some(mad);
    };
    if open.port.is_opa {
        mad.set_pkey_index(pkey_index);
    }
    let is = |what: MadResult| result & what.bits() != 0;
    if !is(MadResult::SUCCESS) {
        // The driver does not process MADs: no "unsupported" response.
        return give_to_agent(open, mad, sleep).and(None);
    }
    if is(MadResult::CONSUMED) {
        return None;
    }
    if is(MadResult::REPLY) {
        let responder = switch_responder(open, qp.kind());
        respond::answer(
            responder.as_ref(),
            &mad,
            Some(answer),
            (node.port, length),
            sleep,
        );
        return None;
    }
    Some(mad)
}

/// Delivers a MAD to its agent; returns it if there is none.
fn give_to_agent(open: &OpenPort, mad: RecvMad, sleep: &MaySleep) -> Option<RecvMad> {
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let Some(agent) = dispatch::find(&open.port, &header, mad.mad()) else {
        return Some(mad);
    };
    trace::ib_mad_recv_done_agent(&agent.body);
    deliver(&agent, mad, sleep);
    None
}

/// Delivers a MAD to its agent, or responds with "unsupported".
fn give(
    open: &OpenPort,
    qp: &SpecialQp<Layer>,
    mad: RecvMad,
    answer: &mut RecvMad,
    sleep: &MaySleep,
) {
    let Some(mad) = give_to_agent(open, mad, sleep) else {
        return;
    };
    if respond::unsupported(&mad, answer) {
        let port = node_of(open, &mad).port;
        let responder = switch_responder(open, qp.kind());
        respond::answer(
            responder.as_ref(),
            &mad,
            Some(answer),
            (port, MAD_SIZE),
            sleep,
        );
    }
}

/// Status of a request that was answered.
const GOOD: (u32, u32) = (c::IB_WC_SUCCESS, 0);

/// Delivers a received MAD to an agent.
fn deliver(agent: &AgentUse, mad: RecvMad, sleep: &MaySleep) {
    if security::check(agent, mad.wc().pkey_index).is_err() {
        return;
    }
    let message = match agent.is_kernel_rmpp() {
        true => rmpp::receive(agent, mad, sleep),
        false => Some(mad),
    };
    let Some(mad) = message else {
        return;
    };
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    if !header.is_response() {
        return agent.deliver(None, mad, sleep);
    }
    let answered = {
        let mut table = agent.table.lock();
        let key = matching::find(agent, &table, &mad);
        key.and_then(|key| complete::answer(&mut table, &key, GOOD))
    };
    match answered {
        Some(answered) => {
            // The response is delivered before the request completes.
            agent.deliver(Some(answered.send()), mad, sleep);
            answered.end(agent, sleep);
        }
        // Later segments of a message that the client reassembles belong to a request that is complete already.
        None if is_user_segment(agent, &header, &mad) => agent.deliver(None, mad, sleep),
        None => {}
    }
}

fn is_user_segment(agent: &Agent, header: &Header, mad: &RecvMad) -> bool {
    let is_message = has_rmpp(header.mgmt_class) && Rmpp::parse(&mad.bytes(RMPP_AT)).is_active();
    !agent.is_kernel_rmpp() && is_message
}
