// SPDX-License-Identifier: GPL-2.0

//! Matching responses with requests: by transaction ID, class and sender.
//!
//! IBTA specification, volume 1, section 13.4.6.4: a transaction is identified by its ID, the class and the requester's
//! GID or LID.

use kernel_ext::bindings as c;
use rdma::{
    core::mad::{
        recv::RecvMad,
        send::{Destination, PostedBody},
    },
    Gid,
};

use super::{
    header::{Header, MAD_HEADER},
    state::{Agent, Entry, Key, Origin, Phase, Table},
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

/// Whether a response was sent to the address that the request came from.
fn came_back(agent: &Agent, sent_to: &Destination, endpoints: &Endpoints) -> bool {
    let (device, port) = (&agent.port.device, agent.port.port_num);
    if endpoints.has_route {
        let own = gid::get(device, port, sent_to.sgid_index.into());
        return own.is_ok_and(|own| own.gid() == endpoints.destination);
    }
    let Some(lmc) = cache::of(device, port).map(|port| port.known.with(|known| known.lmc)) else {
        return false;
    };
    // An LMC has three bits.
    let mask = (1u8 << (lmc & 7)).wrapping_sub(1);
    (sent_to.path_bits ^ endpoints.path_bits) & mask == 0
}

/// Whether a received MAD is from the peer that a posted one was sent to.
fn same_endpoints(
    agent: &Agent,
    origin: &Origin,
    sent: &Header,
    got: &Header,
    endpoints: &Endpoints,
) -> bool {
    // Two requests, or two responses: the peer is another one.
    if sent.is_response() == got.is_response() {
        return false;
    }
    let Some(sent_to) = origin.posted().and_then(PostedBody::destination) else {
        return false;
    };
    if sent_to.gid.is_some() != endpoints.has_route {
        return false;
    }
    if got.is_response() {
        return came_back(agent, &sent_to, endpoints);
    }
    match sent_to.gid {
        Some(gid) => gid == endpoints.source,
        None => sent_to.lid == endpoints.slid,
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
        let sent = entry.send().header();
        takes_answer(entry)
            && sent.mgmt_class == got.mgmt_class
            // The LIDs of directed-route SMPs may be permissive.
            && (got.is_directed_route() || same_endpoints(agent, &entry.origin, &sent, &got, &endpoints))
    })
}
