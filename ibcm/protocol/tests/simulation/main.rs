// SPDX-License-Identifier: GPL-2.0

//! Two ends over a bad network: connections begin and end at random by both; none is left, and what one end takes for established is
//! what the other one has agreed to.
//!
//! `IB_CM_CONNECTIONS=1000000 cargo test --release --test simulation` runs as many for each kind of network.
//!
//! concerns rows 6.031, 6.033, 6.034

mod end;
mod network;

use end::{offered_timeout, rep_param, req_param, End, Hands, Id, SERVICE};
use ib_cm_protocol::{
    connection::{Connection, Given, Stop},
    field::{Data, DATA_SIZE},
    messages::*,
    reject::Reason,
    remote::{addressee, admit, again, Addressee, Admission, Remote, SidrKey},
    states::{Event, Input, State},
};
use network::{Deed, Faults, Network, Packet, What};
use std::collections::HashSet;

#[derive(Default, Debug)]
struct Counts {
    /// Connections that both ends, or the active one, have had.
    both: u64,
    active: u64,
    stale: u64,
    errors: u64,
    disconnected: u64,
    resolved: u64,
    loaded: u64,
}

struct World {
    ends: [End; 2],
    network: Network,
    /// What was ever established by the side that asked: its ID, the other one.
    agreed: HashSet<(u32, u32)>,
    counts: Counts,
}

impl World {
    fn new(seed: u64, faults: Faults) -> Self {
        let ends = [End::new(0), End::new(1)];
        Self {
            ends,
            network: Network::new(seed, faults),
            agreed: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Drives an identifier, tells its client, and says whether it went on.
    fn drive(&mut self, me: usize, local: u32, input: Input, packet: Option<&Packet>) -> bool {
        let end = &mut self.ends[me];
        let Some(mut id) = end.ids.remove(&local) else {
            return false;
        };
        let guid = end.guid();
        let private = [me as u8; 7];
        let given = Given {
            private_data: &private,
            transaction: packet.map_or(0, |packet| packet.transaction),
        };
        let reason = match input {
            Input::SendRej => Reason::ConsumerDefined,
            _ => id.connection.reason_to_destroy(),
        };
        let service_timeout = match packet {
            Some(packet) if packet.message == Attribute::Mra => {
                Mra::read(&packet.data).service_timeout
            }
            _ => 0,
        };
        let (req, rep) = (req_param(&id, guid), rep_param(&id, guid));
        if input == Input::SendReq {
            id.connection.ask(&req);
        }
        let mut hands = Hands {
            me,
            guid,
            peer: (local, id.connection.remote()),
            network: &mut self.network,
            tables: &mut end.tables,
            duplicates: &mut end.duplicates,
            waiting: &mut id.waiting,
            entry: &mut id.entry,
            sidr: &mut id.sidr,
            req,
            rep,
            reason,
            service_timeout,
        };
        let done = id.connection.drive(input, given, &mut hands);
        if input == Input::SendRep && done.is_ok() {
            id.connection.accept(&rep);
        }
        if let (Ok(Some(Event::LapReceived)), Some(packet)) = (&done, packet) {
            id.connection.take_lap(&Lap::read(&packet.data));
        }
        let gone = matches!(input, Input::Destroy | Input::DestroyNoMemory);
        if gone {
            assert_eq!(id.connection.state(), State::Idle);
            assert!(
                id.entry.is_none() && id.sidr.is_none() && id.waiting.is_none(),
                "{input:?}"
            );
            end.free_qps.push(id.qpn);
        } else {
            end.ids.insert(local, id);
        }
        match done {
            Ok(event) => {
                if let Some(event) = event {
                    self.tell(me, local, event);
                }
                true
            }
            Err(Stop::Unsent(())) => false,
            Err(_) => false,
        }
    }

    fn put_off(&mut self, me: usize, local: u32, within: u64, deed: Deed) {
        let delay = self.network.random.below(within);
        self.network.later(delay, What::Does(me, local, deed));
    }

    /// The client of an identifier learns of an event. Nobody destroys in it.
    fn tell(&mut self, me: usize, local: u32, event: Event) {
        let whims = self.network.faults.whims;
        let whim = self.network.random.percent(whims);
        match event {
            Event::ReqReceived | Event::RepReceived if whim => match self.network.random.below(3) {
                0 => self.end(me, local, Input::SendRej),
                1 => self.put_off(me, local, 200, Deed::Destroy),
                _ => {
                    assert!(self.drive(me, local, Input::PrepareMra, None));
                    let deed = if event == Event::ReqReceived {
                        Deed::Accept
                    } else {
                        Deed::Ready
                    };
                    self.put_off(me, local, 2000, deed);
                }
            },
            Event::ReqReceived => self.put_off(me, local, 50, Deed::Accept),
            Event::RepReceived => self.put_off(me, local, 50, Deed::Ready),
            Event::RtuReceived | Event::UserEstablished => self.established(me, local, false),
            Event::DreqReceived if whim => self.put_off(me, local, 500, Deed::Destroy),
            Event::DreqReceived => self.put_off(me, local, 100, Deed::AnswerDisconnect),
            Event::LapReceived => {
                if whim {
                    assert!(self.drive(me, local, Input::PrepareMra, None));
                }
                self.put_off(me, local, 100, Deed::AnswerPath);
            }
            Event::AprReceived => self.loaded(me, local),
            Event::MraReceived | Event::LapError => {}
            Event::SidrReqReceived => {
                if !self.drive(me, local, Input::SendSidrRep, None) || whim {
                    self.put_off(me, local, 50, Deed::Destroy);
                } else {
                    self.put_off(me, local, 1, Deed::Destroy);
                }
            }
            Event::SidrRepReceived => {
                self.counts.resolved += 1;
                self.put_off(me, local, 50, Deed::Destroy);
            }
            Event::RejReceived
            | Event::DreqError
            | Event::DrepReceived
            | Event::ReqError
            | Event::RepError
            | Event::SidrReqError
            | Event::TimewaitExit => {
                self.counts.disconnected += u64::from(event == Event::DrepReceived);
                self.counts.errors += u64::from(matches!(
                    event,
                    Event::ReqError | Event::RepError | Event::DreqError
                ));
                // Some clients do not wait until the queue pair is free.
                let state = self.ends[me].ids[&local].connection.state();
                if state == State::Idle || whim {
                    self.put_off(me, local, 20, Deed::Destroy);
                }
            }
        }
    }

    /// A call after which the client needs the identifier no more.
    fn end(&mut self, me: usize, local: u32, input: Input) {
        self.drive(me, local, input, None);
        self.put_off(me, local, 20, Deed::Destroy);
    }

    /// An end takes its alternate path for loaded: the other one has it.
    fn loaded(&mut self, me: usize, local: u32) {
        self.counts.loaded += 1;
        let remote = self.ends[me].ids[&local].connection.remote_id;
        if let Some(theirs) = self.ends[1 - me].ids.get(&remote) {
            let theirs = &theirs.connection;
            let timeouts = [theirs.alternate_ack_timeout, theirs.ack_timeout];
            assert!(timeouts.contains(&offered_timeout(local)), "{timeouts:?}");
        }
    }

    /// The queue pair of an end that has agreed to a path migrates to it.
    fn migrate(&mut self, me: usize, local: u32) {
        let offered = self.ends[me].ids[&local].connection.alternate_ack_timeout;
        if self.drive(me, local, Input::Migrate, None) {
            assert_eq!(self.ends[me].ids[&local].connection.ack_timeout, offered);
        }
    }

    /// An end takes a connection for established: has the other one agreed, and to the same?
    fn established(&mut self, me: usize, local: u32, is_active: bool) {
        let mine = self.ends[me].ids.get_mut(&local).expect("an identifier");
        assert!(!mine.established, "twice");
        mine.established = true;
        let mine = &self.ends[me].ids[&local].connection;
        if is_active {
            assert!(self.agreed.insert((local, mine.remote_id)));
            self.counts.active += 1;
        } else {
            assert!(
                self.agreed.contains(&(mine.remote_id, local)),
                "the peer does not know of it"
            );
            self.counts.both += 1;
        }
        if let Some(theirs) = self.ends[1 - me].ids.get(&mine.remote_id) {
            let theirs = &theirs.connection;
            assert_eq!(
                (mine.local_id, mine.remote_id),
                (theirs.remote_id, theirs.local_id)
            );
            assert_eq!(
                (mine.local_qpn, mine.remote_qpn),
                (theirs.remote_qpn, theirs.local_qpn)
            );
            assert_eq!((mine.sq_psn, mine.rq_psn), (theirs.rq_psn, theirs.sq_psn));
            assert_eq!(
                mine.initiator_depth,
                if is_active {
                    theirs.responder_resources
                } else {
                    2
                }
            );
        }
        if self.network.random.percent(5) {
            self.put_off(me, local, 300, Deed::LoadPath);
        }
        let deed = if self.network.random.percent(self.network.faults.whims) {
            Deed::Destroy
        } else {
            Deed::Disconnect
        };
        self.put_off(me, local, 3000, deed);
    }

    fn does(&mut self, me: usize, local: u32, deed: Deed) {
        let Some(id) = self.ends[me].ids.get(&local) else {
            return;
        };
        let state = id.connection.state();
        let pair = (id.connection.remote_id, local);
        let no_memory = state == State::ReqRcvd && self.network.random.percent(10);
        let destroy = id.connection.destroy(no_memory);
        match deed {
            Deed::Connect if !self.drive(me, local, Input::SendReq, None) => {
                self.put_off(me, local, 9, Deed::Destroy)
            }
            Deed::Resolve if !self.drive(me, local, Input::SendSidrReq, None) => {
                self.put_off(me, local, 9, Deed::Destroy)
            }
            Deed::Connect | Deed::Resolve => {}
            Deed::Accept => {
                if !self.drive(me, local, Input::SendRep, None) {
                    self.put_off(me, local, 99, Deed::Destroy);
                } else if self.network.random.percent(self.network.faults.whims) {
                    self.put_off(me, local, 200, Deed::Establish);
                }
            }
            Deed::Ready => match self.drive(me, local, Input::SendRtu, None) {
                true => self.established(me, local, true),
                false => self.put_off(me, local, 99, Deed::Destroy),
            },
            // The first packet of the peer has come before the RTU.
            Deed::Establish => {
                if self.agreed.contains(&pair) && self.drive(me, local, Input::Establish, None) {
                    self.drive(me, local, Input::Established, None);
                }
            }
            Deed::LoadPath => drop(self.drive(me, local, Input::SendLap, None)),
            Deed::AnswerPath => {
                if self.drive(me, local, Input::SendApr, None) {
                    self.put_off(me, local, 100, Deed::Migrate);
                }
            }
            Deed::Migrate => self.migrate(me, local),
            Deed::Disconnect => drop(self.drive(me, local, Input::SendDreq, None)),
            Deed::AnswerDisconnect => drop(self.drive(me, local, Input::SendDrep, None)),
            Deed::Destroy => drop(self.drive(me, local, destroy, None)),
        }
    }

    fn reject(&mut self, me: usize, packet: &Packet, reason: Reason, about: About) {
        let theirs = Rtu::read(&packet.data);
        let local = if about == About::Req {
            0
        } else {
            theirs.remote_comm_id
        };
        let rej = Rej {
            local_comm_id: local,
            remote_comm_id: theirs.local_comm_id,
            message_rejected: about as u8,
            rejected_info_length: 0,
            reason: reason as u16,
        };
        let mut data: Data = [0; DATA_SIZE];
        rej.write(&mut data);
        self.network.send(
            me,
            &Packet {
                message: Attribute::Rej,
                data,
                transaction: packet.transaction,
            },
        );
    }

    fn stale(&mut self, me: usize, packet: &Packet, about: About, (local, remote): (u32, u32)) {
        self.counts.stale += 1;
        self.reject(me, packet, Reason::StaleConn, about);
        if self.ends[me].has(local, remote) {
            self.drive(me, local, Input::SendDreq, None);
        }
    }

    fn request(&mut self, me: usize, packet: &Packet) {
        let req = Req::read(&packet.data);
        let end = &mut self.ends[me];
        let local = end.new_id();
        let remote = Remote::of_req(&req);
        end.tables.owner = (local, remote.comm_id);
        match admit(&mut end.tables, &remote) {
            Admission::New if req.service_id != SERVICE => {
                end.tables.remove(&remote);
                self.reject(me, packet, Reason::InvalidServiceId, About::Req);
            }
            Admission::New => {
                let (qpn, psn) = (end.new_qp(), self.network.random.below(1 << 24) as u32);
                let mut id = Id::new(
                    Connection::from_req(local, packet.transaction, &req),
                    qpn,
                    psn,
                );
                id.entry = Some(remote);
                end.ids.insert(local, id);
                assert!(self.drive(me, local, Input::Req, Some(packet)));
            }
            Admission::Duplicate((local, remote)) => {
                if end.has(local, remote) {
                    self.drive(me, local, Input::ReqAgain, Some(packet));
                }
            }
            Admission::Stale(owner) => self.stale(me, packet, About::Req, owner),
        }
    }

    fn resolve(&mut self, me: usize, packet: &Packet) {
        let req = SidrReq::read(&packet.data);
        let key = SidrKey {
            request_id: req.requestid,
            slid: 0,
        };
        let end = &mut self.ends[me];
        let local = end.new_id();
        if end.tables.sidr.contains_key(&key) {
            end.duplicates += 1;
            return;
        }
        end.tables.sidr.insert(key, local);
        let qpn = end.new_qp();
        let mut id = Id::new(
            Connection::from_sidr_req(local, packet.transaction, &req),
            qpn,
            0,
        );
        id.sidr = Some(key);
        end.ids.insert(local, id);
        assert!(self.drive(me, local, Input::SidrReq, Some(packet)));
    }

    fn reply(&mut self, me: usize, local: u32, packet: &Packet) {
        let rep = Rep::read(&packet.data);
        let end = &mut self.ends[me];
        let Some(id) = end
            .ids
            .get_mut(&local)
            .filter(|id| id.connection.expects(Input::Rep))
        else {
            return;
        };
        let remote = id.connection.remote_of_rep(&rep);
        end.tables.owner = (local, remote.comm_id);
        match admit(&mut end.tables, &remote) {
            Admission::New => {
                id.connection.take_rep(&rep);
                id.entry = Some(remote);
                assert!(self.drive(me, local, Input::Rep, Some(packet)));
            }
            Admission::Duplicate(_) => {}
            Admission::Stale(owner) => self.stale(me, packet, About::Rep, owner),
        }
    }

    fn arrives(&mut self, me: usize, packet: &Packet) {
        let local = match addressee(packet.message, &packet.data) {
            Addressee::New if packet.message == Attribute::Req => return self.request(me, packet),
            Addressee::New => return self.resolve(me, packet),
            Addressee::Ids { local, remote } => self.ends[me].has(local, remote).then_some(local),
            Addressee::Peer { ca_guid, comm_id } => {
                let owner = self.ends[me].tables.by_id.get(&(comm_id, ca_guid)).copied();
                owner
                    .filter(|owner| self.ends[me].has(owner.0, owner.1))
                    .map(|owner| owner.0)
            }
            Addressee::Nobody => None,
        };
        let Some(local) = local else {
            return self.nobody(me, packet);
        };
        let input = match packet.message {
            Attribute::Rep => return self.reply(me, local, packet),
            Attribute::Dreq
                if !self.ends[me].ids[&local]
                    .connection
                    .is_for_us(&Dreq::read(&packet.data)) =>
            {
                return
            }
            Attribute::Dreq => Input::Dreq,
            Attribute::Drep => Input::Drep,
            Attribute::Rtu => Input::Rtu,
            Attribute::Lap => Input::Lap,
            Attribute::Apr => Input::Apr,
            Attribute::SidrRep => Input::SidrRep,
            Attribute::Rej if Rej::read(&packet.data).reason == Reason::StaleConn as u16 => {
                Input::RejStale
            }
            Attribute::Rej => Input::Rej,
            Attribute::Mra => match About::from_bits(Mra::read(&packet.data).message_mraed) {
                Some(About::Req) => Input::MraReq,
                Some(About::Rep) => Input::MraRep,
                _ => Input::MraOther,
            },
            Attribute::Req | Attribute::SidrReq => unreachable!(),
        };
        self.drive(me, local, input, Some(packet));
    }

    /// A message for an identifier that is not there.
    fn nobody(&mut self, me: usize, packet: &Packet) {
        match packet.message {
            Attribute::Rep => {
                if let Addressee::Ids { local, remote } = again(&Rep::read(&packet.data)) {
                    if self.ends[me].has(local, remote) {
                        self.drive(me, local, Input::RepAgain, Some(packet));
                    }
                }
            }
            Attribute::Dreq => {
                let dreq = Dreq::read(&packet.data);
                let mut data: Data = [0; DATA_SIZE];
                Drep {
                    local_comm_id: dreq.remote_comm_id,
                    remote_comm_id: dreq.local_comm_id,
                }
                .write(&mut data);
                self.network.send(
                    me,
                    &Packet {
                        message: Attribute::Drep,
                        data,
                        transaction: packet.transaction,
                    },
                );
            }
            _ => {}
        }
    }

    fn waited(&mut self, me: usize, local: u32, count: u64) {
        let end = &mut self.ends[me];
        let Some(id) = end.ids.get_mut(&local) else {
            return;
        };
        if id
            .waiting
            .as_ref()
            .is_none_or(|waiting| waiting.count != count)
        {
            return;
        }
        let guid = end.number as u64 + 0x1000;
        let (req, rep) = (req_param(id, guid), rep_param(id, guid));
        let mut hands = Hands {
            me,
            guid,
            peer: (local, id.connection.remote()),
            network: &mut self.network,
            tables: &mut end.tables,
            duplicates: &mut end.duplicates,
            waiting: &mut id.waiting,
            entry: &mut id.entry,
            sidr: &mut id.sidr,
            req,
            rep,
            reason: Reason::Timeout,
            service_timeout: 0,
        };
        if !hands.retry(local) {
            id.waiting = None;
            self.drive(me, local, Input::SendFailed, None);
        }
    }

    fn timewait(&mut self, me: usize, local: u32, remote: Remote) {
        let id = self.ends[me].ids.get(&local);
        if id.is_some_and(|id| {
            id.connection.remote_id == remote.comm_id && id.connection.remote_qpn == remote.qpn
        }) {
            self.drive(me, local, Input::TimewaitExpired, None);
        }
    }

    /// An end begins a connection or asks for a queue pair.
    fn begin(&mut self) {
        let me = self.network.random.below(2) as usize;
        let end = &mut self.ends[me];
        let (local, qpn) = (end.new_id(), end.new_qp());
        let psn = self.network.random.below(1 << 24) as u32;
        let mut id = Id::new(Connection::new(local), qpn, psn);
        let nobody_listens = self.network.random.percent(self.network.faults.whims / 4);
        id.service = if nobody_listens { SERVICE + 1 } else { SERVICE };
        id.connection.timeout_ms = 40;
        id.connection.max_cm_retries = 4;
        end.ids.insert(local, id);
        let sidr = self.network.random.percent(5);
        self.put_off(
            me,
            local,
            100,
            if sidr { Deed::Resolve } else { Deed::Connect },
        );
        if self.network.random.percent(self.network.faults.whims / 4) {
            self.put_off(me, local, 2000, Deed::Destroy);
        }
    }

    fn step(&mut self) -> bool {
        let Some(what) = self.network.next() else {
            return false;
        };
        match what {
            What::Arrives(me, packet) => self.arrives(me, &packet),
            What::Waited(me, local, count) => self.waited(me, local, count),
            What::Timewait(me, local, remote) => self.timewait(me, local, remote),
            What::Does(me, local, deed) => self.does(me, local, deed),
        }
        true
    }

    /// Runs connections, some hundred at a time, until nothing happens any more: then nothing is left.
    fn run(seed: u64, faults: Faults, connections: u64) -> Counts {
        let mut world = Self::new(seed, faults);
        for begun in 0..connections {
            world.begin();
            while begun % 200 == 199
                && world.ends[0].ids.len() + world.ends[1].ids.len() > 400
                && world.step()
            {}
        }
        while world.step() {}
        assert!(world.network.is_empty());
        for end in &world.ends {
            let left: Vec<_> = end.ids.values().map(|id| id.connection.state()).collect();
            assert!(left.is_empty(), "seed {seed:#x}: {left:?}");
            let tables = &end.tables;
            assert!(
                tables.by_id.is_empty() && tables.by_qp.is_empty() && tables.sidr.is_empty(),
                "seed {seed:#x}"
            );
        }
        world.counts
    }
}

fn connections() -> u64 {
    std::env::var("IB_CM_CONNECTIONS").map_or(20_000, |count| count.parse().expect("a number"))
}

fn seed() -> u64 {
    std::env::var("IB_CM_SEED").map_or(0x9e37_79b9_7f4a_7c15, |seed| {
        seed.parse().expect("a number")
    })
}

/// A good network and patient clients: all is established by both and disconnected in order.
#[test]
fn without_faults() {
    let faults = Faults {
        lost: 0,
        doubled: 0,
        unsent: 0,
        whims: 0,
        delay: 1,
    };
    let counts = World::run(seed(), faults, connections());
    assert_eq!(
        (counts.both, counts.stale, counts.errors),
        (counts.active, 0, 0),
        "{counts:?}"
    );
    assert_eq!(counts.active + counts.resolved, connections());
    // Where both ask at once, each answers the other one, and nobody waits for it.
    assert!(
        counts.disconnected > counts.active / 2 && counts.resolved > 0 && counts.loaded > 0,
        "{counts:?}"
    );
}

/// Packets come twice and in any order.
#[test]
fn doubled_and_reordered() {
    let faults = Faults {
        lost: 0,
        doubled: 30,
        unsent: 0,
        whims: 20,
        delay: 60,
    };
    let counts = World::run(seed(), faults, connections());
    assert!(
        counts.both > connections() / 3 && counts.stale > 0,
        "{counts:?}"
    );
}

/// A fifth is lost, and more.
#[test]
fn lost() {
    for lost in [20, 45] {
        let faults = Faults {
            lost,
            doubled: 10,
            unsent: 1,
            whims: 20,
            delay: 40,
        };
        let counts = World::run(seed() ^ lost, faults, connections());
        assert!(
            counts.both > connections() / 10 && counts.errors > 0 && counts.stale > 0,
            "{counts:?}"
        );
    }
}

/// Nothing arrives.
#[test]
fn cut() {
    let faults = Faults {
        lost: 100,
        doubled: 0,
        unsent: 10,
        whims: 20,
        delay: 1,
    };
    let counts = World::run(seed(), faults, connections() / 10);
    assert_eq!((counts.both, counts.active), (0, 0));
    assert!(counts.errors > 0);
}
