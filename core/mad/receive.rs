// SPDX-License-Identifier: GPL-2.0

//! A MAD that was received: who gets it.
//!
//! In this order: SMPs that go by directed route may only pass through; the driver may answer a MAD itself; then it is for
//! the agent of its transaction or its kind; and a request that nobody takes is answered as not supported.
//!
//! IBTA specification, volume 1, sections 13.4 and 13.5.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings as c;
use rdma::{
    abi::mad::MadResult,
    core::mad::{
        qp::{MadLayer, SpecialKind, SpecialQp},
        recv::RecvMad,
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
    matching, respond, rmpp, security,
    smi::{self, Action, Forward, Node, Smp},
    state::{self, Agent, AgentUse, Layer, OpenPort, Queue, SendMad},
};

impl MadLayer for Layer {
    type Send = SendMad;
    type Queue = Queue;

    fn sent(qp: &Arc<SpecialQp<Self>>, send: Arc<SendMad>, wc: &c::ib_wc, sleep: &MaySleep) {
        complete::sent(qp, &send, wc, sleep);
    }

    fn received(qp: &SpecialQp<Self>, mad: RecvMad, sleep: &MaySleep) {
        // A port that is not there any more gets nothing, and a queue pair in error posts nothing: it is about to go.
        if mad.wc().status != c::IB_WC_SUCCESS {
            return;
        }
        if let Some(open) = state::find_port(qp.device(), qp.queue.port_num) {
            receive(&open, qp, mad, sleep);
        }
    }
}

/// How many bytes of a MAD have come.
fn received_length(mad: &RecvMad) -> usize {
    let bytes = mad.wc().byte_len as usize;
    bytes
        .saturating_sub(size_of::<c::ib_grh>())
        .min(mad.mad().len())
}

/// Whether a MAD may come over a queue pair.
fn is_valid(open: &OpenPort, kind: SpecialKind, header: &Header) -> bool {
    let is_known = header.base_version == BASE_VERSION
        || open.port.is_opa && header.base_version == OPA_BASE_VERSION;
    // What is exchanged for connections is only sent, not asked for.
    let is_cm = header.mgmt_class == class::CM
        && header.attr_id != CLASS_PORT_INFO
        && header.method != method::SEND;
    is_known && !is_cm && header.is_smp() == (kind == SpecialKind::Smi)
}

/// Takes a MAD in, and posts memory for another one.
fn receive(open: &OpenPort, qp: &SpecialQp<Layer>, mut mad: RecvMad, sleep: &MaySleep) {
    let length = received_length(&mad);
    mad.clear_from(length);
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let size = open.port.mad_size;
    // Without memory for the next one, this one is dropped.
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

/// The node, as far as routes are concerned, and the port that a MAD came by.
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

/// Where an SMP goes that goes by directed route.
enum Way {
    /// Nowhere.
    Nowhere,
    /// It is for this node.
    Here,
    /// Through a port of this switch.
    Through(u32),
}

/// Moves an SMP on that goes by directed route.
fn take_smp(open: &OpenPort, mad: &mut RecvMad, node: Node) -> Way {
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let is_opa = is_opa_smp(&open.port, &header);
    match is_opa {
        true => trace::ib_mad_handle_opa_smi(mad),
        false => trace::ib_mad_handle_ib_smi(mad),
    }
    let layout = if is_opa { &smi::OPA } else { &smi::IB };
    let mut smp = Smp::new(mad.mad_mut(), layout);
    if smp.take_received(node) == Action::Discard {
        return Way::Nowhere;
    }
    match smp.forward() {
        Forward::Local => Way::Here,
        Forward::Send => {
            let sent = smp.prepare_send(node) == Action::Handle;
            match sent && open.port.device.has_process_mad() && smp.is_for_here() {
                true => Way::Here,
                false => Way::Nowhere,
            }
        }
        Forward::Onward if node.is_switch => Way::Through(smp.forward_port()),
        Forward::Onward => Way::Here,
    }
}

/// Who answers over a queue pair: at a switch, at its port 0.
fn switch_responder(open: &OpenPort, kind: SpecialKind) -> Option<Arc<Agent>> {
    if open.port.device.is_switch() {
        let zero = state::find_port(&open.port.device, 0)?;
        return zero.responder(kind).cloned();
    }
    open.responder(kind).cloned()
}

/// What comes before agents: routes, and the driver. Returns the MAD if it is for an agent.
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
        false => Way::Here,
    };
    match way {
        Way::Here => (),
        Way::Nowhere => return None,
        Way::Through(port) => {
            let responder = switch_responder(open, qp.kind());
            let length = mad.length();
            respond::answer(responder.as_ref(), &mad, None, (port, length), sleep);
            return None;
        }
    }
    let device = &open.port.device;
    let processed = mad.driver_process(device, open.port.port_num, answer, sleep);
    let Some((result, length, pkey_index)) = processed else {
        return Some(mad);
    };
    if open.port.is_opa {
        let mut wc = *mad.wc();
        wc.pkey_index = pkey_index;
        mad.set_wc(&wc);
    }
    let is = |what: MadResult| result & what.bits() != 0;
    if !is(MadResult::SUCCESS) {
        // The driver cannot handle such MADs: nobody else answers that they are not supported.
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

/// Gives a MAD to its agent; returns it if there is none.
fn give_to_agent(open: &OpenPort, mad: RecvMad, sleep: &MaySleep) -> Option<RecvMad> {
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let Some(agent) = dispatch::find(&open.port, &header, mad.mad()) else {
        return Some(mad);
    };
    trace::ib_mad_recv_done_agent(&agent.body);
    deliver(&agent, mad, sleep);
    None
}

/// Gives a MAD to its agent, or answers that it is not supported.
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

/// How a request ends that is answered.
const GOOD: (u32, u32) = (c::IB_WC_SUCCESS, 0);

/// An agent has received a MAD.
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
            // The answer is told of before the end of the request.
            agent.deliver(Some(answered.send()), mad, sleep);
            answered.end(agent, sleep);
        }
        // Segments of a message that the client puts together itself belong to a request that has had its answer.
        None if is_user_segment(agent, &header, &mad) => agent.deliver(None, mad, sleep),
        None => {}
    }
}

fn is_user_segment(agent: &Agent, header: &Header, mad: &RecvMad) -> bool {
    let is_message = has_rmpp(header.mgmt_class) && Rmpp::parse(&mad.bytes(RMPP_AT)).is_active();
    !agent.is_kernel_rmpp() && is_message
}
