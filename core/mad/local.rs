// SPDX-License-Identifier: GPL-2.0

//! Directed-route SMPs that an agent sends to its own node: the driver processes them, and the agent's work delivers
//! the result.
//!
//! IBTA specification, volume 1, section 14.2.2.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    abi::mad::MadResult,
    core::mad::{
        recv::{LocalCompletion, RecvMad},
        trace,
    },
};

use super::{
    dispatch,
    header::{Header, BASE_VERSION, MAD_HEADER, MAD_SIZE, OPA_BASE_VERSION, OPA_MAD_SIZE},
    smi::{self, Action, Node, Smp},
    state::{AgentUse, Port, SendMad},
};

/// The permissive LID, which every port accepts.
const PERMISSIVE_LID: u32 = 0xffff;

/// The path of a posted SMP.
pub(super) enum Outgoing {
    /// It is sent over the queue pair.
    Wire,
    /// It is handled by this node: the response and its agent, if any.
    Local(Option<(AgentUse, RecvMad)>),
}

/// Whether an SMP is an Omni-Path SMP, whose route has another layout.
pub(super) fn is_opa_smp(port: &Port, header: &Header) -> bool {
    port.is_opa && header.class_version == OPA_BASE_VERSION
}

/// The work completion of an SMP that is delivered locally.
fn completion(send: &SendMad, slid: u32, length: usize) -> LocalCompletion {
    LocalCompletion {
        pkey_index: send.body.pkey_index(),
        length,
        slid,
        port_num: send.body.port_num(),
    }
}

/// A copy of a posted SMP.
fn copy_of(send: &SendMad, size: usize) -> Result<RecvMad> {
    let mut copy = RecvMad::new(size, GFP_ATOMIC)?;
    let first = send.body.bytes::<MAD_SIZE>(0);
    for (to, from) in copy.mad_mut().iter_mut().zip(first) {
        *to = from;
    }
    if size > MAD_SIZE {
        for at in (MAD_SIZE..size).step_by(8) {
            let bytes = send.body.bytes::<8>(at);
            for (to, from) in copy.mad_mut().iter_mut().skip(at).zip(bytes) {
                *to = from;
            }
        }
    }
    Ok(copy)
}

/// Processes a directed-route SMP that is posted. Any context.
///
/// # Errors
///
/// `EINVAL` for an invalid route, or where the driver fails on the SMP; `ENOMEM`.
pub(super) fn send(send: &Arc<SendMad>) -> Result<Outgoing> {
    let (agent, header) = (&send.agent, send.header());
    let port = &agent.port;
    let device = &port.device;
    let is_switch = device.is_switch();
    let node = Node {
        is_switch,
        port: if is_switch {
            send.body.port_num()
        } else {
            port.port_num
        },
        ports: device.phys_port_cnt(),
    };
    let mut request = copy_of(send, port.mad_size)?;
    let is_opa_smp = is_opa_smp(port, &header);
    match is_opa_smp {
        true => trace::ib_mad_handle_out_opa_smi(&request),
        false => trace::ib_mad_handle_out_ib_smi(&request),
    }
    let layout = if is_opa_smp { &smi::OPA } else { &smi::IB };
    let mut smp = Smp::new(request.mad_mut(), layout);
    if smp.is_at_its_end() && smp.prepare_send(node) == Action::Discard {
        return Err(EINVAL);
    }
    let slid = smp.slid();
    let stays = device.has_process_mad() && (smp.is_for_here() || smp.has_returned());
    send.body.write(smi::HOP_POINTER_AT, &[smp.hop_pointer()]);
    if slid > PERMISSIVE_LID && slid != u32::MAX {
        return Err(EINVAL);
    }
    if !stays {
        return Ok(Outgoing::Wire);
    }
    let is_opa = port.is_opa && header.base_version == OPA_BASE_VERSION;
    let length = match is_opa {
        true => send
            .body
            .header_length()
            .saturating_add(send.body.data_length()),
        false => MAD_SIZE,
    };
    process(send, request, node.port, slid & PERMISSIVE_LID, length)
}

/// Lets the driver process an SMP.
fn process(
    send: &Arc<SendMad>,
    request: RecvMad,
    port_num: u32,
    slid: u32,
    length: usize,
) -> Result<Outgoing> {
    let agent = &send.agent;
    let mut answer = RecvMad::new(agent.port.mad_size, GFP_ATOMIC)?;
    let of_request = completion(send, slid, length);
    let (result, answer_length, pkey_index) = agent
        .qp
        .driver_process(
            &agent.port.device,
            &request,
            Some(&of_request),
            port_num,
            &mut answer,
        )
        .ok_or(EINVAL)?;
    let (success, reply) = (MadResult::SUCCESS.bits(), MadResult::REPLY.bits());
    let received = match result {
        both if both == success | reply => {
            let header = Header::parse(&answer.bytes::<MAD_HEADER>(0));
            let is_wanted = header.is_response() && agent.receives;
            let receiver = is_wanted.then(|| agent.try_use()).flatten();
            receiver.map(|receiver| (receiver, answer))
        }
        both if both == success | MadResult::CONSUMED.bits() => None,
        // Handled as if it had been received.
        only if only == success => {
            let header = Header::parse(&request.bytes::<MAD_HEADER>(0));
            let receiver = dispatch::find(&agent.port, &header, request.mad());
            receiver.map(|receiver| (receiver, request))
        }
        _ => return Err(EINVAL),
    };
    if agent.port.is_opa {
        send.body.set_pkey_index(pkey_index);
    }
    let received = received.map(|(receiver, mut mad)| {
        mad.set_local(&LocalCompletion {
            port_num: receiver.port.port_num,
            ..completion(send, PERMISSIVE_LID, length)
        });
        set_length(&agent.port, &mut mad, answer_length);
        (receiver, mad)
    });
    Ok(Outgoing::Local(received))
}

/// Sets the length of a MAD: `length` for an Omni-Path MAD, else [`MAD_SIZE`].
pub(super) fn set_length(port: &Port, mad: &mut RecvMad, length: usize) {
    let header = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    match port.is_opa && header.base_version != BASE_VERSION {
        true => mad.set_length(length, OPA_MAD_SIZE),
        false => mad.set_length(MAD_SIZE, MAD_SIZE),
    }
}
