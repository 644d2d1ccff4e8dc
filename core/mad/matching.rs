// SPDX-License-Identifier: GPL-2.0

//! Matching responses with requests: by transaction ID, class and sender.
//!
//! IBTA specification, volume 1, section 13.4.6.4: a transaction is identified by its ID, the class and the requester's
//! GID or LID.

use kernel_ext::bindings as c;
use rdma::{core::mad::recv::RecvMad, Gid};

use super::{
    header::{Header, MAD_HEADER},
    state::{Agent, Entry, Key, Phase, SendMad, Table},
};
use crate::{
    gid::{self, cache},
    verbs::{ah, ah_attr},
};

/// Addresses of a received MAD.
struct Endpoints {
    has_route: bool,
    source: Gid,
    destination: Gid,
    slid: u32,
    path_bits: u8,
}

impl Endpoints {
    fn of(agent: &Agent, mad: &RecvMad) -> Self {
        let wc = mad.wc();
        let header = mad.network_header();
        let network = ah::network_of(&agent.port.device, agent.port.port_num, wc, &header);
        // An invalid header matches no address.
        let gids = ah_attr::gids(&header, network);
        let (source, destination) = gids.unwrap_or((Gid::default(), Gid::default()));
        Self {
            has_route: wc.wc_flags as u32 & c::IB_WC_GRH != 0,
            source,
            destination,
            slid: wc.slid,
            path_bits: wc.dlid_path_bits,
        }
    }
}

/// The sender's GID, if the packet has a GRH.
pub(super) fn source(agent: &Agent, mad: &RecvMad) -> Option<Gid> {
    let endpoints = Endpoints::of(agent, mad);
    endpoints.has_route.then_some(endpoints.source)
}

/// The destination GID or LID of an address vector.
pub(super) fn destination(vector: &c::rdma_ah_attr) -> (Option<Gid>, u32) {
    let has_route = u32::from(vector.ah_flags) & c::IB_AH_GRH != 0;
    match has_route {
        true => (Some(Gid::from_raw(&vector.grh.dgid)), 0),
        false => (None, dlid(vector)),
    }
}

/// Whether a response was sent to the address that the request came from.
fn came_back(agent: &Agent, vector: &c::rdma_ah_attr, endpoints: &Endpoints) -> bool {
    let (device, port) = (&agent.port.device, agent.port.port_num);
    if endpoints.has_route {
        let own = gid::get(device, port, vector.grh.sgid_index.into());
        return own.is_ok_and(|own| own.gid() == endpoints.destination);
    }
    let Some(lmc) = cache::of(device, port).map(|port| port.known.with(|known| known.lmc)) else {
        return false;
    };
    // An LMC has three bits.
    let mask = (1u8 << (lmc & 7)).wrapping_sub(1);
    (path_bits(vector) ^ endpoints.path_bits) & mask == 0
}

/// The path bits of an address vector: which of the port's LIDs it uses.
fn path_bits(vector: &c::rdma_ah_attr) -> u8 {
    // SAFETY: The kind says which member there is; it is a number.
    unsafe {
        match vector.type_ {
            c::RDMA_AH_ATTR_TYPE_IB => vector.__bindgen_anon_1.ib.src_path_bits,
            c::RDMA_AH_ATTR_TYPE_OPA => vector.__bindgen_anon_1.opa.src_path_bits,
            _ => 0,
        }
    }
}

/// The destination LID of an address vector.
fn dlid(vector: &c::rdma_ah_attr) -> u32 {
    // SAFETY: As above.
    unsafe {
        match vector.type_ {
            c::RDMA_AH_ATTR_TYPE_IB => vector.__bindgen_anon_1.ib.dlid.into(),
            c::RDMA_AH_ATTR_TYPE_OPA => vector.__bindgen_anon_1.opa.dlid,
            _ => 0,
        }
    }
}

/// Whether a received MAD is from the peer that a posted one was sent to.
fn same_endpoints(
    agent: &Agent,
    send: &SendMad,
    sent: &Header,
    got: &Header,
    endpoints: &Endpoints,
) -> bool {
    // Two requests, or two responses: the peer is another one.
    if sent.is_response() == got.is_response() {
        return false;
    }
    let Some(vector) = send.body.address() else {
        return false;
    };
    let has_route = u32::from(vector.ah_flags) & c::IB_AH_GRH != 0;
    if has_route != endpoints.has_route {
        return false;
    }
    if got.is_response() {
        return came_back(agent, &vector, endpoints);
    }
    match has_route {
        true => Gid::from_raw(&vector.grh.dgid) == endpoints.source,
        false => dlid(&vector) == endpoints.slid,
    }
}

/// Whether an entry takes a response: before the send completion only if it has a timeout.
fn takes_answer(entry: &Entry) -> bool {
    let awaits = entry.phase != Phase::Sending || entry.timeout_ms != 0;
    awaits && !entry.canceled && !entry.answered
}

/// The posted MAD of an agent that a received one belongs to.
pub(super) fn find(agent: &Agent, table: &Table, mad: &RecvMad) -> Option<Key> {
    let got = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let endpoints = Endpoints::of(agent, mad);
    table.find(got.tid, |entry| {
        let send = entry.send();
        let sent = send.header();
        takes_answer(entry)
            && sent.mgmt_class == got.mgmt_class
            // The LIDs of directed-route SMPs may be permissive.
            && (got.is_directed_route() || same_endpoints(agent, send, &sent, &got, &endpoints))
    })
}
