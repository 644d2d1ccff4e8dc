// SPDX-License-Identifier: GPL-2.0

//! Peers of connections: which identifier a message is for, whether a REQ has come before, and stale connections.
//!
//! IBTA volume 1, 12.4.1, 12.9.8.3.

use crate::{
    field::Data,
    messages::{About, Apr, Attribute, Drep, Dreq, Lap, Mra, Rej, Rep, Req, Rtu, SidrRep},
    reject::Reason,
};

/// The peer of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// GUID of its device.
    pub ca_guid: u64,
    /// Its ID of the connection.
    pub comm_id: u32,
    /// Its queue pair.
    pub qpn: u32,
}

impl Remote {
    /// The sender of a REQ.
    pub const fn of_req(req: &Req) -> Self {
        Self {
            ca_guid: req.local_ca_guid,
            comm_id: req.local_comm_id,
            qpn: req.local_qpn,
        }
    }

    /// What orders the table of IDs.
    pub const fn id_key(&self) -> (u32, u64) {
        (self.comm_id, self.ca_guid)
    }

    /// What orders the table of queue pairs.
    pub const fn qp_key(&self) -> (u32, u64) {
        (self.qpn, self.ca_guid)
    }
}

/// The two tables of peers: by ID and by queue pair.
pub trait Remotes {
    /// What an entry belongs to.
    type Owner;

    /// Puts the peer into the table of IDs ([`Remote::id_key`]); if another one is there, its owner comes back.
    fn insert_id(&mut self, remote: &Remote) -> Option<Self::Owner>;

    /// Puts the peer into the table of queue pairs ([`Remote::qp_key`]); if another one is there, its owner comes back.
    fn insert_qp(&mut self, remote: &Remote) -> Option<Self::Owner>;

    /// Takes the peer out of the table of IDs.
    fn remove_id(&mut self, remote: &Remote);
}

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission<O> {
    /// Nothing: it is in both tables now.
    New,
    /// Its message has come before, to this identifier; it is in no table.
    Duplicate(O),
    /// Its queue pair is of another connection, of this identifier: that one ended without a DREQ. It is in no table; the message is
    /// rejected with [`Reason::StaleConn`], and the identifier sends a DREQ.
    Stale(O),
}

/// Puts the sender of a REQ or REP into the tables.
pub fn admit<R: Remotes>(remotes: &mut R, remote: &Remote) -> Admission<R::Owner> {
    if let Some(owner) = remotes.insert_id(remote) {
        return Admission::Duplicate(owner);
    }
    match remotes.insert_qp(remote) {
        None => Admission::New,
        Some(owner) => {
            remotes.remove_id(remote);
            Admission::Stale(owner)
        }
    }
}

/// The identifier that a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    /// A new one.
    New,
    /// The one with this local ID; its remote ID is this one, or 0 if it has none yet.
    Ids {
        /// Local ID.
        local: u32,
        /// Remote ID.
        remote: u32,
    },
    /// The one whose peer is this.
    Peer {
        /// GUID of the peer's device.
        ca_guid: u64,
        /// The peer's ID.
        comm_id: u32,
    },
    /// None.
    Nobody,
}

/// The identifier that a message is for. A REP that finds none may be a duplicate: see [`again`].
pub fn addressee(message: Attribute, data: &Data) -> Addressee {
    let ids = |local, remote| Addressee::Ids { local, remote };
    match message {
        Attribute::Req | Attribute::SidrReq => Addressee::New,
        Attribute::Rep => ids(Rep::read(data).remote_comm_id, 0),
        Attribute::SidrRep => ids(SidrRep::read(data).requestid, 0),
        Attribute::Rej => of_rej(data),
        Attribute::Mra => {
            let mra = Mra::read(data);
            match About::from_bits(mra.message_mraed) {
                Some(About::Req) => ids(mra.remote_comm_id, 0),
                Some(_) => ids(mra.remote_comm_id, mra.local_comm_id),
                None => Addressee::Nobody,
            }
        }
        Attribute::Rtu => {
            let rtu = Rtu::read(data);
            ids(rtu.remote_comm_id, rtu.local_comm_id)
        }
        Attribute::Dreq => {
            let dreq = Dreq::read(data);
            ids(dreq.remote_comm_id, dreq.local_comm_id)
        }
        Attribute::Drep => {
            let drep = Drep::read(data);
            ids(drep.remote_comm_id, drep.local_comm_id)
        }
        Attribute::Lap => {
            let lap = Lap::read(data);
            ids(lap.remote_comm_id, lap.local_comm_id)
        }
        Attribute::Apr => {
            let apr = Apr::read(data);
            ids(apr.remote_comm_id, apr.local_comm_id)
        }
    }
}

/// The sender's ID of the connection, which all messages begin with but a SIDR_REP: that of a SIDR_REQ is the request's.
pub fn sender_id(data: &Data) -> u32 {
    let id = data.first_chunk().copied();
    u32::from_be_bytes(id.unwrap_or_default())
}

/// The identifier that a REP is for which has come again.
pub fn again(rep: &Rep) -> Addressee {
    Addressee::Ids {
        local: rep.remote_comm_id,
        remote: rep.local_comm_id,
    }
}

/// A sender that gave up does not know our ID: it tells its device in the additional information.
fn of_rej(data: &Data) -> Addressee {
    let rej = Rej::read(data);
    if rej.reason == Reason::Timeout as u16 {
        let guid = Rej::ARI
            .get(data)
            .first_chunk()
            .copied()
            .unwrap_or_default();
        return Addressee::Peer {
            ca_guid: u64::from_be_bytes(guid),
            comm_id: rej.local_comm_id,
        };
    }
    let remote = match About::from_bits(rej.message_rejected) {
        Some(About::Req) => 0,
        _ => rej.local_comm_id,
    };
    Addressee::Ids {
        local: rej.remote_comm_id,
        remote,
    }
}

/// What tells SIDR_REQs apart: the sender's ID and its LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SidrKey {
    /// ID of the request.
    pub request_id: u32,
    /// LID of the sender; 0 on RoCE.
    pub slid: u32,
}
