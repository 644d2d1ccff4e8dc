// SPDX-License-Identifier: GPL-2.0

//! An identifier: its state, what the messages have told, and [`Connection::drive`], which walks the table of states.
//!
//! The caller holds the identifier's lock, and does what has to do with the world: see [`Effects`].

use crate::{
    messages::{About, Attribute, Dreq, Lap, Mra, Rej, Rep, Req, SidrReq},
    reject::Reason,
    remote::Remote,
    states::{look_up, Action, Event, Input, LapState, Line, Outcome, Refusal, State, To, Unsent},
    time,
    transport::Transport,
};

/// What the protocol wants of its surroundings.
pub trait Effects {
    /// Why a message cannot be sent.
    type Error;

    /// Sends a message until it is answered: `timeout_ms` and `max_cm_retries` of the connection, whose state is still the old one.
    ///
    /// # Errors
    ///
    /// It cannot be sent.
    fn request(&mut self, connection: &Connection, message: Attribute) -> Result<(), Self::Error>;

    /// Sends a message once. The state of the connection is still the old one, which [`Connection::rej`] wants.
    ///
    /// # Errors
    ///
    /// It cannot be sent.
    fn send(&mut self, connection: &Connection, message: Attribute) -> Result<(), Self::Error>;

    /// Answers a duplicate; if that fails, another one will come.
    fn resend(&mut self, connection: &Connection, message: Attribute);

    /// Ends the wait for an answer to the last [`Self::request`], if it still waits.
    fn cancel(&mut self);

    /// The last [`Self::request`] waits for longer: [`time::after_mra`]. Whether it still waits.
    fn extend(&mut self, connection: &Connection) -> bool;

    /// Takes the peer out of the tables and drops its entry, if there is one.
    fn forget(&mut self);

    /// Takes the peer out of the tables if it is there; after some milliseconds, the input is [`Input::TimewaitExpired`] if the
    /// identifier, found anew by its IDs, still has this queue pair of the peer. A REQ that was rejected as stale has no peer yet:
    /// [`Connection::remote`] is zeros.
    fn timewait(&mut self, milliseconds: u32);

    /// Takes the listener out of its table.
    fn unlisten(&mut self);

    /// Takes the SIDR_REQ out of its table.
    fn forget_sidr(&mut self);

    /// The alternate address vector becomes the primary one.
    fn switch_path(&mut self);

    /// A message has come again ([`crate::counters::Group::Duplicates`]).
    fn duplicate(&mut self, message: Attribute);
}

/// What an input comes with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given<'a> {
    /// Private data of a call.
    pub private_data: &'a [u8],
    /// Transaction ID of a message.
    pub transaction: u64,
}

/// Why nothing, or not all, was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// A call in a state that does not allow it.
    Refused(Refusal),
    /// A message that means nothing in this state, or has come again.
    Ignored,
    /// A message that was not sent. Whether the state has changed is in the table.
    Unsent(E),
}

/// Private data that answers to duplicates carry.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    bytes: [u8; Self::SIZE],
    len: usize,
}

impl Kept {
    /// The largest private data: of an RTU and of a DREP.
    pub const SIZE: usize = 224;

    const NONE: Self = Self {
        bytes: [0; Self::SIZE],
        len: 0,
    };

    fn new(from: &[u8]) -> Self {
        let mut kept = Self {
            len: from.len().min(Self::SIZE),
            ..Self::NONE
        };
        for (to, from) in kept.bytes.iter_mut().zip(from) {
            *to = *from;
        }
        kept
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// An identifier. Numbers are in host order.
#[derive(Clone, Debug)]
pub struct Connection {
    state: State,
    lap: LapState,
    /// The state that the message waits in which waits for an answer.
    waits_in: State,
    kept: Kept,
    /// Our ID.
    pub local_id: u32,
    /// The peer's ID; 0 while it is unknown.
    pub remote_id: u32,
    /// The service that is listened on or asked for.
    pub service_id: u64,
    /// Transaction ID of our messages.
    pub transaction: u64,
    /// Our queue pair.
    pub local_qpn: u32,
    /// The peer's queue pair.
    pub remote_qpn: u32,
    /// GUID of the peer's device.
    pub remote_ca_guid: u64,
    /// Service of our queue pair.
    pub transport: Transport,
    /// PSN of our first packet.
    pub sq_psn: u32,
    /// PSN of the peer's first packet.
    pub rq_psn: u32,
    /// How long a message waits for its answer, in ms.
    pub timeout_ms: u32,
    /// How often it is sent again.
    pub max_cm_retries: u8,
    /// MTU, encoded.
    pub path_mtu: u8,
    /// P_Key.
    pub pkey: u16,
    /// RDMA reads and atomics that the peer may have begun at once.
    pub responder_resources: u8,
    /// RDMA reads and atomics that we may have begun at once.
    pub initiator_depth: u8,
    /// Retries of packets.
    pub retry_count: u8,
    /// Retries when the peer is not ready.
    pub rnr_retry_count: u8,
    /// Time that the peer takes for an acknowledge, encoded.
    pub target_ack_delay: u8,
    /// Primary path: time to wait for an acknowledge, encoded.
    pub ack_timeout: u8,
    /// Alternate path: the same; 0 where there is none.
    pub alternate_ack_timeout: u8,
}

/// What a client asks for a connection with; C header: `struct ib_cm_req_param`.
#[derive(Clone, Copy, Debug)]
pub struct ReqParam {
    /// The service.
    pub service_id: u64,
    /// Our device.
    pub ca_guid: u64,
    /// Our queue pair.
    pub qpn: u32,
    /// Its service.
    pub transport: Transport,
    /// PSN of the peer's first packet.
    pub starting_psn: u32,
    /// RDMA reads and atomics that the peer may have begun at once.
    pub responder_resources: u8,
    /// RDMA reads and atomics that we may have begun at once.
    pub initiator_depth: u8,
    /// Time in which the peer is to answer, encoded.
    pub remote_cm_response_timeout: u8,
    /// Time in which we answer, encoded.
    pub local_cm_response_timeout: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries of packets.
    pub retry_count: u8,
    /// Retries when the receiver is not ready.
    pub rnr_retry_count: u8,
    /// Retries of messages.
    pub max_cm_retries: u8,
    /// A shared receive queue.
    pub srq: bool,
    /// ECE: vendor.
    pub vendor_id: u32,
    /// P_Key.
    pub pkey: u16,
    /// MTU, encoded.
    pub mtu: u8,
    /// Packet life time of the primary path, encoded.
    pub packet_life_time: u8,
    /// Packet life time of the alternate path.
    pub alternate_packet_life_time: Option<u8>,
}

/// What a client accepts a connection with; C header: `struct ib_cm_rep_param`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepParam {
    /// Our device.
    pub ca_guid: u64,
    /// Time that our device takes for an acknowledge, encoded.
    pub ack_delay: u8,
    /// Our queue pair.
    pub qpn: u32,
    /// PSN of the peer's first packet.
    pub starting_psn: u32,
    /// RDMA reads and atomics that the peer may have begun at once.
    pub responder_resources: u8,
    /// RDMA reads and atomics that we may have begun at once.
    pub initiator_depth: u8,
    /// What has become of the alternate path.
    pub failover_accepted: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries when the receiver is not ready.
    pub rnr_retry_count: u8,
    /// A shared receive queue.
    pub srq: bool,
    /// ECE: vendor.
    pub vendor_id: u32,
}

/// Queue pairs and PSNs have 24 bits.
const LOW_24: u32 = 0xff_ffff;

impl Connection {
    /// A new identifier.
    pub const fn new(local_id: u32) -> Self {
        Self {
            state: State::Idle,
            lap: LapState::Uninit,
            waits_in: State::Idle,
            kept: Kept::NONE,
            local_id,
            remote_id: 0,
            service_id: 0,
            transaction: 0,
            local_qpn: 0,
            remote_qpn: 0,
            remote_ca_guid: 0,
            transport: Transport::Unknown,
            sq_psn: 0,
            rq_psn: 0,
            timeout_ms: 0,
            max_cm_retries: 0,
            path_mtu: 0,
            pkey: 0,
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            target_ack_delay: 0,
            ack_timeout: 0,
            alternate_ack_timeout: 0,
        }
    }

    /// The identifier that a REQ makes. Its input is [`Input::Req`] once the peer is admitted and a listener found.
    pub const fn from_req(local_id: u32, transaction: u64, req: &Req) -> Self {
        Self {
            remote_id: req.local_comm_id,
            service_id: req.service_id,
            transaction,
            timeout_ms: time::milliseconds(req.local_cm_response_timeout),
            max_cm_retries: req.max_cm_retries,
            remote_qpn: req.local_qpn,
            remote_ca_guid: req.local_ca_guid,
            initiator_depth: req.responder_resources,
            responder_resources: req.initiator_depth,
            path_mtu: req.path_packet_payload_mtu,
            pkey: req.partition_key,
            sq_psn: req.starting_psn,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            transport: Transport::of_receiver(req),
            // The path's life time, and one: what the REQ tells, if it tells any.
            ack_timeout: time::packet_life_time(req.primary_local_ack_timeout) + 1,
            alternate_ack_timeout: match req.has_alternate() {
                true => time::packet_life_time(req.alternate_local_ack_timeout) + 1,
                false => 0,
            },
            ..Self::new(local_id)
        }
    }

    /// The identifier that a SIDR_REQ makes. Its input is [`Input::SidrReq`] once it is found to be no duplicate.
    pub const fn from_sidr_req(local_id: u32, transaction: u64, req: &SidrReq) -> Self {
        Self {
            remote_id: req.requestid,
            service_id: req.serviceid,
            transaction,
            ..Self::new(local_id)
        }
    }

    /// Its state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The state of its alternate path.
    pub const fn lap_state(&self) -> LapState {
        self.lap
    }

    /// Private data for answers to duplicates.
    pub fn kept(&self) -> &[u8] {
        self.kept.bytes()
    }

    /// The peer, as the tables have it.
    pub const fn remote(&self) -> Remote {
        Remote {
            ca_guid: self.remote_ca_guid,
            comm_id: self.remote_id,
            qpn: self.remote_qpn,
        }
    }

    /// Whether an input would do something.
    pub fn expects(&self, input: Input) -> bool {
        matches!(look_up(self.state, self.lap, input), Outcome::Go(_))
    }

    /// Takes what a client asks for a connection with; [`Input::SendReq`] follows.
    pub fn ask(&mut self, param: &ReqParam) {
        self.service_id = param.service_id;
        self.timeout_ms = time::answer(param.packet_life_time, param.remote_cm_response_timeout);
        self.max_cm_retries = param.max_cm_retries;
        self.initiator_depth = param.initiator_depth;
        self.responder_resources = param.responder_resources;
        self.retry_count = param.retry_count;
        self.path_mtu = param.mtu;
        self.pkey = param.pkey;
        self.transport = param.transport;
        self.local_qpn = param.qpn & LOW_24;
        self.rq_psn = param.starting_psn & LOW_24;
        self.ack_timeout = param.packet_life_time.saturating_add(1);
        self.alternate_ack_timeout = param
            .alternate_packet_life_time
            .map_or(0, |time| time.saturating_add(1));
    }

    /// The REQ without its paths.
    pub fn req(&self, param: &ReqParam) -> Req {
        let mut req = Req {
            local_comm_id: self.local_id,
            vendor_id: param.vendor_id,
            service_id: param.service_id,
            local_ca_guid: param.ca_guid,
            local_qpn: param.qpn,
            initiator_depth: param.initiator_depth,
            remote_cm_response_timeout: param.remote_cm_response_timeout,
            end_to_end_flow_control: param.flow_control,
            starting_psn: param.starting_psn,
            local_cm_response_timeout: param.local_cm_response_timeout,
            partition_key: param.pkey,
            path_packet_payload_mtu: param.mtu,
            max_cm_retries: param.max_cm_retries,
            ..Req::default()
        };
        param.transport.write(&mut req);
        if param.transport != Transport::XrcInitiator {
            req.responder_resources = param.responder_resources;
            req.retry_count = param.retry_count;
            req.rnr_retry_count = param.rnr_retry_count;
            req.srq = param.srq;
        }
        req
    }

    /// The REP.
    pub fn rep(&self, param: &RepParam) -> Rep {
        let mut rep = Rep {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            starting_psn: param.starting_psn,
            responder_resources: param.responder_resources,
            target_ack_delay: param.ack_delay,
            failover_accepted: param.failover_accepted,
            rnr_retry_count: param.rnr_retry_count,
            local_ca_guid: param.ca_guid,
            ..Rep::default()
        };
        if self.transport == Transport::XrcTarget {
            rep.srq = true;
            rep.local_ee_context_number = param.qpn;
        } else {
            rep.initiator_depth = param.initiator_depth;
            rep.end_to_end_flow_control = param.flow_control;
            rep.srq = param.srq;
            rep.local_qpn = param.qpn;
        }
        rep.set_vendor_id(param.vendor_id);
        rep
    }

    /// Takes what a client accepts the connection with, once [`Input::SendRep`] has succeeded.
    pub fn accept(&mut self, param: &RepParam) {
        self.initiator_depth = param.initiator_depth;
        self.responder_resources = param.responder_resources;
        self.rq_psn = param.starting_psn & LOW_24;
        self.local_qpn = param.qpn & LOW_24;
    }

    /// The queue pair that a REP tells.
    pub fn qpn_of_rep(&self, rep: &Rep) -> u32 {
        match self.transport {
            Transport::XrcInitiator => rep.local_ee_context_number,
            _ => rep.local_qpn,
        }
    }

    /// The sender of a REP.
    pub fn remote_of_rep(&self, rep: &Rep) -> Remote {
        Remote {
            ca_guid: rep.local_ca_guid,
            comm_id: rep.local_comm_id,
            qpn: self.qpn_of_rep(rep),
        }
    }

    /// Takes what an admitted REP tells; [`Input::Rep`] follows.
    pub fn take_rep(&mut self, rep: &Rep) {
        self.remote_id = rep.local_comm_id;
        self.remote_qpn = self.qpn_of_rep(rep);
        self.remote_ca_guid = rep.local_ca_guid;
        self.initiator_depth = rep.responder_resources;
        self.responder_resources = rep.initiator_depth;
        self.sq_psn = rep.starting_psn;
        self.rnr_retry_count = rep.rnr_retry_count;
        self.target_ack_delay = rep.target_ack_delay;
        for timeout in [&mut self.ack_timeout, &mut self.alternate_ack_timeout] {
            *timeout = time::ack_timeout(rep.target_ack_delay, timeout.wrapping_sub(1));
        }
    }

    /// Takes the path that a LAP offers, once [`Input::Lap`] has succeeded.
    pub const fn take_lap(&mut self, lap: &Lap) {
        // As for the paths of a REQ.
        self.alternate_ack_timeout =
            time::packet_life_time(lap.alternate_local_ack_timeout).saturating_add(1);
    }

    /// Whether a DREQ is for our queue pair; one that is not is ignored.
    pub const fn is_for_us(&self, dreq: &Dreq) -> bool {
        self.local_qpn == dreq.remote_qpn_eecn
    }

    /// A REJ of the message that the state answers.
    pub const fn rej(&self, reason: Reason, info_length: u8) -> Rej {
        let (about, local) = match self.state {
            State::ReqRcvd => (About::Req, 0),
            State::MraReqSent => (About::Req, self.local_id),
            State::RepRcvd | State::MraRepSent => (About::Rep, self.local_id),
            _ => (About::Other, self.local_id),
        };
        Rej {
            local_comm_id: local,
            remote_comm_id: self.remote_id,
            message_rejected: about as u8,
            rejected_info_length: info_length,
            reason: reason as u16,
        }
    }

    /// Why an identifier is rejected that is destroyed: a REQ was not answered in time, or the client has no use for the answer. The
    /// former is told with the GUID of our device as additional information.
    pub const fn reason_to_destroy(&self) -> Reason {
        match self.state {
            State::ReqSent | State::MraReqRcvd => Reason::Timeout,
            _ => Reason::ConsumerDefined,
        }
    }

    /// An MRA for the message that has come again.
    pub const fn mra(&self) -> Mra {
        let about = match self.state {
            State::MraReqSent => About::Req,
            State::MraRepSent => About::Rep,
            _ => About::Other,
        };
        Mra {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            message_mraed: about as u8,
            service_timeout: time::MRA_SERVICE_TIMEOUT,
        }
    }

    /// A DREQ.
    pub const fn dreq(&self) -> Dreq {
        Dreq {
            local_comm_id: self.local_id,
            remote_comm_id: self.remote_id,
            remote_qpn_eecn: self.remote_qpn,
        }
    }

    /// The input that destroying is.
    pub const fn destroy(&self, no_memory: bool) -> Input {
        match (self.state, self.transport) {
            (State::ReqRcvd, _) if no_memory => Input::DestroyNoMemory,
            (_, Transport::XrcTarget) => Input::DestroyXrcTarget,
            _ => Input::Destroy,
        }
    }

    /// Does what an input does, and tells the event for the client.
    ///
    /// # Errors
    ///
    /// See [`Stop`].
    pub fn drive<E: Effects>(
        &mut self,
        input: Input,
        given: Given<'_>,
        effects: &mut E,
    ) -> Result<Option<Event>, Stop<E::Error>> {
        if input == Input::SendFailed && self.waits_in != self.state {
            return Err(Stop::Ignored);
        }
        match look_up(self.state, self.lap, input) {
            Outcome::Go(line) => self.walk(line, given, effects),
            Outcome::Refused(why) => Err(Stop::Refused(why)),
            Outcome::Ignored(duplicate) => {
                if let Some(message) = duplicate {
                    effects.duplicate(message);
                }
                Err(Stop::Ignored)
            }
        }
    }

    fn walk<E: Effects>(
        &mut self,
        line: &Line,
        given: Given<'_>,
        effects: &mut E,
    ) -> Result<Option<Event>, Stop<E::Error>> {
        let mut unsent = None;
        for action in line.actions {
            let sent = match action {
                Action::Request(message) => effects.request(self, *message),
                Action::Send(message) => effects.send(self, *message),
                Action::Extend if !effects.extend(self) => return Err(Stop::Ignored),
                other => {
                    self.act(*other, given, effects);
                    Ok(())
                }
            };
            match (sent, line.unsent) {
                (Ok(()), _) => {}
                (Err(why), Unsent::Goes) => unsent = Some(why),
                (Err(why), Unsent::Stays) => return Err(Stop::Unsent(why)),
                (Err(why), Unsent::Timewait) => {
                    self.act(Action::Timewait, given, effects);
                    self.state = State::Timewait;
                    return Err(Stop::Unsent(why));
                }
            }
        }
        match line.to {
            To::State(state) => self.state = state,
            To::Lap(lap) => self.lap = lap,
            To::Same | To::Refused(_) => {}
        }
        // An answer is waited for from now on; or, after an MRA, in the new state.
        if line
            .actions
            .iter()
            .any(|action| matches!(action, Action::Request(_) | Action::Extend))
        {
            self.waits_in = self.state;
        }
        unsent.map_or(Ok(line.event), |why| Err(Stop::Unsent(why)))
    }

    /// What cannot fail.
    fn act<E: Effects>(&mut self, action: Action, given: Given<'_>, effects: &mut E) {
        match action {
            Action::Resend(message) => effects.resend(self, message),
            Action::Cancel => effects.cancel(),
            Action::Forget => effects.forget(),
            Action::Timewait => effects.timewait(time::milliseconds(self.ack_timeout)),
            Action::Unlisten => effects.unlisten(),
            Action::ForgetSidr => effects.forget_sidr(),
            Action::Keep => self.kept = Kept::new(given.private_data),
            Action::KeepNone => self.kept = Kept::NONE,
            Action::TakeTransaction => self.transaction = given.transaction,
            Action::SwitchPath => {
                self.ack_timeout = self.alternate_ack_timeout;
                effects.switch_path();
            }
            Action::Duplicate(message) => effects.duplicate(message),
            Action::Request(_) | Action::Send(_) | Action::Extend => {}
        }
    }
}
