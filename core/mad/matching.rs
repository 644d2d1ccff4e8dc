// SPDX-License-Identifier: GPL-2.0

//! To which request a response belongs: by transaction ID, class, and who has sent it.
//!
//! IBTA specification, volume 1, section 13.4.6.4: a transaction is named by its ID, the class and the requester's GID or LID.

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

/// What of a MAD that was received says whom it is from, and to whom.
struct Ends {
    has_route: bool,
    source: Gid,
    destination: Gid,
    slid: u32,
    path_bits: u8,
}

impl Ends {
    fn of(agent: &Agent, mad: &RecvMad) -> Self {
        let wc = mad.wc();
        let header = mad.network_header();
        let network = ah::network_of(&agent.port.device, agent.port.port_num, wc, &header);
        // What is no such header is from nobody.
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

/// The GID of a MAD's sender, if its packet had a global route.
pub(super) fn source(agent: &Agent, mad: &RecvMad) -> Option<Gid> {
    let ends = Ends::of(agent, mad);
    ends.has_route.then_some(ends.source)
}

/// The GID or the LID that an address vector leads to.
pub(super) fn destination(vector: &c::rdma_ah_attr) -> (Option<Gid>, u32) {
    let has_route = u32::from(vector.ah_flags) & c::IB_AH_GRH != 0;
    match has_route {
        true => (Some(Gid::from_raw(&vector.grh.dgid)), 0),
        false => (None, dlid(vector)),
    }
}

/// Whether a response came to where the request left.
fn came_back(agent: &Agent, vector: &c::rdma_ah_attr, ends: &Ends) -> bool {
    let (device, port) = (&agent.port.device, agent.port.port_num);
    if ends.has_route {
        let own = gid::get(device, port, vector.grh.sgid_index.into());
        return own.is_ok_and(|own| own.gid() == ends.destination);
    }
    let Some(lmc) = cache::of(device, port).map(|port| port.known.with(|known| known.lmc)) else {
        return false;
    };
    // An LMC has three bits.
    let mask = (1u8 << (lmc & 7)).wrapping_sub(1);
    (path_bits(vector) ^ ends.path_bits) & mask == 0
}

/// Which of the port's LIDs an address vector names.
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

/// The LID that an address vector leads to.
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

/// Whether a MAD that was received is of the same two ends as one that was sent.
fn same_ends(agent: &Agent, send: &SendMad, sent: &Header, got: &Header, ends: &Ends) -> bool {
    // Two requests, or two responses: the ends are others.
    if sent.is_response() == got.is_response() {
        return false;
    }
    let Some(vector) = send.body.address() else {
        return false;
    };
    let has_route = u32::from(vector.ah_flags) & c::IB_AH_GRH != 0;
    if has_route != ends.has_route {
        return false;
    }
    if got.is_response() {
        return came_back(agent, &vector, ends);
    }
    match has_route {
        true => Gid::from_raw(&vector.grh.dgid) == ends.source,
        false => dlid(&vector) == ends.slid,
    }
}

/// Whether an answer of an entry may be taken: while the queue pair has it, only if one is awaited.
fn takes_answer(entry: &Entry) -> bool {
    let awaits = entry.phase != Phase::Sending || entry.timeout_ms != 0;
    awaits && !entry.canceled && !entry.answered
}

/// The MAD that an agent has sent in the transaction of one that was received.
pub(super) fn find(agent: &Agent, table: &Table, mad: &RecvMad) -> Option<Key> {
    let got = Header::parse(&mad.bytes::<MAD_HEADER>(0));
    let ends = Ends::of(agent, mad);
    table.find(got.tid, |entry| {
        let send = entry.send();
        let sent = send.header();
        takes_answer(entry)
            && sent.mgmt_class == got.mgmt_class
            // The LIDs of those that go by directed route may be permissive.
            && (got.is_directed_route() || same_ends(agent, send, &sent, &got, &ends))
    })
}
