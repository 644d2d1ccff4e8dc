// SPDX-License-Identifier: GPL-2.0

//! One end: identifiers, tables of peers, and what the protocol wants of its surroundings.

use crate::network::{Network, Packet, What};
use ib_cm_protocol::{
    connection::{Connection, Effects, RepParam, ReqParam},
    field::{Data, DATA_SIZE},
    messages::*,
    reject::Reason,
    remote::{Remote, Remotes, SidrKey},
    time,
    transport::Transport,
};
use std::collections::{BTreeMap, HashMap};

/// The service that somebody listens on.
pub const SERVICE: u64 = 0x0106_0000;

/// A message that waits for its answer.
pub struct Waiting {
    packet: Packet,
    pub count: u64,
    pub retries: u8,
    timeout: u64,
}

/// An identifier.
pub struct Id {
    pub connection: Connection,
    pub waiting: Option<Waiting>,
    /// What is in the tables of peers.
    pub entry: Option<Remote>,
    pub sidr: Option<SidrKey>,
    pub qpn: u32,
    pub psn: u32,
    /// The service that is asked for.
    pub service: u64,
    pub established: bool,
}

impl Id {
    pub fn new(connection: Connection, qpn: u32, psn: u32) -> Self {
        let service = connection.service_id;
        Self {
            connection,
            waiting: None,
            entry: None,
            sidr: None,
            qpn,
            psn,
            service,
            established: false,
        }
    }
}

/// The owner of an entry: its local and its remote ID.
pub type Owner = (u32, u32);

#[derive(Default)]
pub struct Tables {
    pub by_id: BTreeMap<(u32, u64), Owner>,
    pub by_qp: BTreeMap<(u32, u64), Owner>,
    pub sidr: BTreeMap<SidrKey, u32>,
    /// The owner of what is inserted next.
    pub owner: Owner,
}

impl Tables {
    pub fn remove(&mut self, remote: &Remote) {
        assert!(self.by_id.remove(&remote.id_key()).is_some());
        assert!(self.by_qp.remove(&remote.qp_key()).is_some());
    }
}

impl Remotes for Tables {
    type Owner = Owner;

    fn insert_id(&mut self, remote: &Remote) -> Option<Owner> {
        let found = self.by_id.get(&remote.id_key()).copied();
        found.or_else(|| self.by_id.insert(remote.id_key(), self.owner))
    }

    fn insert_qp(&mut self, remote: &Remote) -> Option<Owner> {
        let found = self.by_qp.get(&remote.qp_key()).copied();
        found.or_else(|| self.by_qp.insert(remote.qp_key(), self.owner))
    }

    fn remove_id(&mut self, remote: &Remote) {
        self.by_id.remove(&remote.id_key());
    }
}

pub struct End {
    pub number: usize,
    pub ids: HashMap<u32, Id>,
    pub tables: Tables,
    pub next_id: u32,
    pub free_qps: Vec<u32>,
    next_qp: u32,
    pub duplicates: u64,
}

impl End {
    pub fn new(number: usize) -> Self {
        let next_id = 1 + number as u32 * 1_000_000_000;
        let tables = Tables::default();
        Self {
            number,
            ids: HashMap::new(),
            tables,
            next_id,
            free_qps: Vec::new(),
            next_qp: 2,
            duplicates: 0,
        }
    }

    pub fn guid(&self) -> u64 {
        0x1000 + self.number as u64
    }

    pub fn new_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// A queue pair: one that was used before, if there is any.
    pub fn new_qp(&mut self) -> u32 {
        self.free_qps.pop().unwrap_or_else(|| {
            self.next_qp += 1;
            self.next_qp
        })
    }

    /// An identifier with these IDs.
    pub fn has(&self, local: u32, remote: u32) -> bool {
        self.ids
            .get(&local)
            .is_some_and(|id| id.connection.remote_id == remote)
    }
}

pub fn req_param(id: &Id, guid: u64) -> ReqParam {
    ReqParam {
        service_id: id.service,
        ca_guid: guid,
        qpn: id.qpn,
        transport: Transport::Rc,
        starting_psn: id.psn,
        responder_resources: 3,
        initiator_depth: 5,
        remote_cm_response_timeout: 13,
        local_cm_response_timeout: 13,
        flow_control: true,
        retry_count: 7,
        rnr_retry_count: 6,
        max_cm_retries: 6,
        srq: false,
        vendor_id: 0,
        pkey: 0xffff,
        mtu: 3,
        packet_life_time: 10,
        alternate_packet_life_time: None,
    }
}

pub fn rep_param(id: &Id, guid: u64) -> RepParam {
    RepParam {
        ca_guid: guid,
        ack_delay: 9,
        qpn: id.qpn,
        starting_psn: id.psn,
        responder_resources: 4,
        initiator_depth: 2,
        rnr_retry_count: 5,
        ..RepParam::default()
    }
}

/// The acknowledge timeout of the path that an identifier offers, encoded: one of those that no primary path has.
pub const fn offered_timeout(local: u32) -> u8 {
    16 + (local % 4) as u8
}

/// Does for one identifier what the table of states says.
pub struct Hands<'a> {
    pub me: usize,
    pub guid: u64,
    /// Our ID, and the peer as far as it is known.
    pub peer: (u32, Remote),
    pub network: &'a mut Network,
    pub tables: &'a mut Tables,
    pub duplicates: &'a mut u64,
    pub waiting: &'a mut Option<Waiting>,
    pub entry: &'a mut Option<Remote>,
    pub sidr: &'a mut Option<SidrKey>,
    pub req: ReqParam,
    pub rep: RepParam,
    pub reason: Reason,
    pub service_timeout: u8,
}

impl Hands<'_> {
    fn packet(&self, connection: &Connection, message: Attribute) -> Packet {
        let mut data: Data = [0; DATA_SIZE];
        let (local, remote) = (connection.local_id, connection.remote_id);
        match message {
            Attribute::Req => {
                let mut req = connection.req(&self.req);
                let path = Path {
                    local_ack_timeout: time::ack_timeout(9, self.req.packet_life_time),
                    ..Path::default()
                };
                req.set_primary(&path);
                req.write(&mut data);
            }
            Attribute::Rep => connection.rep(&self.rep).write(&mut data),
            Attribute::Rej => {
                connection.rej(self.reason, 8).write(&mut data);
                Rej::ARI.set(&mut data, &self.guid.to_be_bytes()).unwrap();
            }
            Attribute::Mra => connection.mra().write(&mut data),
            Attribute::Dreq => connection.dreq().write(&mut data),
            Attribute::Rtu => Rtu {
                local_comm_id: local,
                remote_comm_id: remote,
            }
            .write(&mut data),
            Attribute::Drep => Drep {
                local_comm_id: local,
                remote_comm_id: remote,
            }
            .write(&mut data),
            Attribute::Lap => Lap {
                local_comm_id: local,
                remote_comm_id: remote,
                alternate_local_ack_timeout: offered_timeout(local),
                ..Lap::default()
            }
            .write(&mut data),
            Attribute::Apr => Apr {
                local_comm_id: local,
                remote_comm_id: remote,
                ..Apr::default()
            }
            .write(&mut data),
            Attribute::SidrReq => SidrReq {
                requestid: local,
                partition_key: 0xffff,
                serviceid: SERVICE,
            }
            .write(&mut data),
            Attribute::SidrRep => SidrRep {
                requestid: remote,
                ..SidrRep::default()
            }
            .write(&mut data),
        }
        if matches!(message, Attribute::Rtu | Attribute::Drep) {
            Rtu::PRIVATE_DATA.set(&mut data, connection.kept()).unwrap();
        }
        Packet {
            message,
            data,
            transaction: u64::from(connection.local_id),
        }
    }

    fn wait(&mut self, local_id: u32) {
        if let Some(waiting) = self.waiting {
            waiting.count += 1;
            let (timeout, count) = (waiting.timeout, waiting.count);
            self.network
                .later(timeout, What::Waited(self.me, local_id, count));
        }
    }

    /// Sends the message that waits once more. Whether it may be.
    pub fn retry(&mut self, local_id: u32) -> bool {
        let Some(waiting) = self.waiting else {
            return true;
        };
        let Some(left) = waiting.retries.checked_sub(1) else {
            return false;
        };
        waiting.retries = left;
        self.network.send(self.me, &waiting.packet);
        self.wait(local_id);
        true
    }
}

impl Effects for Hands<'_> {
    type Error = ();

    fn request(&mut self, connection: &Connection, message: Attribute) -> Result<(), ()> {
        let packet = self.packet(connection, message);
        if self.network.random.percent(self.network.faults.unsent) {
            return Err(());
        }
        self.network.send(self.me, &packet);
        let count = self.waiting.as_ref().map_or(0, |old| old.count);
        let timeout = u64::from(connection.timeout_ms);
        *self.waiting = Some(Waiting {
            packet,
            count,
            retries: connection.max_cm_retries,
            timeout,
        });
        self.wait(connection.local_id);
        Ok(())
    }

    fn send(&mut self, connection: &Connection, message: Attribute) -> Result<(), ()> {
        if self.network.random.percent(self.network.faults.unsent) {
            return Err(());
        }
        let packet = self.packet(connection, message);
        self.network.send(self.me, &packet);
        Ok(())
    }

    fn resend(&mut self, connection: &Connection, message: Attribute) {
        let stale = self.reason;
        if message == Attribute::Rej {
            self.reason = Reason::StaleConn;
        }
        let packet = self.packet(connection, message);
        self.reason = stale;
        self.network.send(self.me, &packet);
    }

    fn cancel(&mut self) {
        *self.waiting = None;
    }

    fn extend(&mut self, connection: &Connection) -> bool {
        if let Some(waiting) = self.waiting {
            waiting.timeout = time::after_mra(self.service_timeout, connection.ack_timeout).into();
        }
        self.wait(connection.local_id);
        self.waiting.is_some()
    }

    fn forget(&mut self) {
        if let Some(remote) = self.entry.take() {
            self.tables.remove(&remote);
        }
    }

    fn timewait(&mut self, milliseconds: u32) {
        // A REQ that was rejected as stale has no peer in the tables.
        let (local, remote) = self.peer;
        self.forget();
        self.network
            .later(milliseconds.into(), What::Timewait(self.me, local, remote));
    }

    fn unlisten(&mut self) {
        unreachable!("nobody listens with an identifier");
    }

    fn forget_sidr(&mut self) {
        let key = self.sidr.take().expect("a SIDR_REQ");
        assert!(self.tables.sidr.remove(&key).is_some());
    }

    fn switch_path(&mut self) {}

    fn duplicate(&mut self, _: Attribute) {
        *self.duplicates += 1;
    }
}
