// SPDX-License-Identifier: GPL-2.0

//! What there is of management datagrams: ports, their agents, and the MADs that agents have posted.
//!
//! A MAD that is posted is an entry of its agent's table until it is done:
//!
//! | phase | the MAD is |
//! |---|---|
//! | [`Phase::Queued`] | waiting until fewer of its agent's requests are without an answer (flow control) |
//! | [`Phase::Sending`] | with the queue pair; the answer may be quicker than the completion |
//! | [`Phase::Waiting`] | sent, and without an answer yet |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `LAYER` | the ports, and the agents by number | any context | nothing |
//! | `Port::registrations` | which agent gets which requests | any context | nothing |
//! | `Port::answers` | the core's answers that have no address yet | process context | the work queue |
//! | `Agent::table` | the MADs of an agent | any context | `Reassembly::received`, `Outbox`, the work queue |
//! | `Reassembly::received` | the segments of a message | any context | nothing |
//! | `Outbox` | the MADs of a queue pair that wait to be sent | any context | `SpecialQp::open`, what drivers take |

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel::{
    impl_has_delayed_work, impl_has_work,
    prelude::*,
    rbtree::{RBTree, RBTreeNode, RBTreeNodeReservation},
    sync::{aref::ARef, Arc, LockClassKey, SetOnce},
    workqueue::{DelayedWork, Work},
};
use kernel_ext::{
    delayed,
    sync::{new_spinlock_irq, IrqBackend, SpinLockIrq},
    timer::now_ns,
    uses::Uses,
    work::OwnedQueue,
};
use rdma::{
    core::{
        mad::{
            agent::{AgentBody, RegistrationRequest},
            qp::{SpecialKind, SpecialQp},
            recv::{RecvMad, Sender},
            send::{OwnAh, Posted, SendBody},
            trace::{Attempts, Sent},
        },
        Device,
    },
    embeds, Gid, MaySleep,
};

use super::header::{Header, Rmpp, MAD_HEADER, RMPP_AT};

/// The MAD layer, as the user of the special queue pairs.
pub(crate) enum Layer {}

/// A port that sends and receives MADs.
#[pin_data]
pub(crate) struct Port {
    pub(crate) device: ARef<Device>,
    pub(crate) port_num: u32,
    /// MADs of Omni-Path may come too.
    pub(crate) is_opa: bool,
    /// How many bytes a MAD may have.
    pub(crate) mad_size: usize,
    /// QP0 and QP1, if the port has them.
    pub(crate) qps: [Option<Arc<SpecialQp<Layer>>>; 2],
    #[pin]
    pub(crate) registrations: SpinLockIrq<KVec<Registered>>,
    /// One work at a time: what of a port's agents has a time limit.
    pub(crate) workers: OwnedQueue,
    /// Answers of the core and packets of RMPP whose receivers are not found yet. `None` once the port is closed.
    #[pin]
    pub(crate) answers: SpinLockIrq<Option<KVec<Answer>>>,
    pub(crate) answerer: OwnedQueue,
    #[pin]
    pub(crate) answering: Work<Port>,
}

impl_has_work! {
    impl HasWork<Self> for Port { self.answering }
}

/// An answer of the core, or a packet of RMPP other than DATA.
pub(crate) struct Answer {
    /// Who sends it.
    pub(crate) agent: Arc<Agent>,
    pub(crate) to: Sender,
    /// What is sent; of a packet of RMPP its headers.
    pub(crate) mad: KVec<u8>,
    pub(crate) is_rmpp: bool,
    /// The message from the same sender, which remembers its address.
    pub(crate) message: Option<Arc<Reassembly>>,
    /// The port that it is sent from.
    pub(crate) port_num: u32,
}

impl Port {
    /// The special queue pair of a kind, if the port has one.
    pub(crate) fn qp(&self, kind: SpecialKind) -> Option<&Arc<SpecialQp<Layer>>> {
        self.qps.iter().flatten().find(|qp| qp.kind() == kind)
    }
}

/// An agent that gets requests.
pub(crate) struct Registered {
    pub(crate) request: RegistrationRequest,
    pub(crate) agent: Arc<Agent>,
}

/// Who is told of an agent's MADs.
pub(crate) enum Client {
    /// A client in C, by its handlers.
    C,
    /// A part of the core.
    Core(Arc<dyn MadClient>),
}

/// A part of the core that has an agent.
pub(crate) trait MadClient: Send + Sync {
    /// A MAD was sent, or could not be: `enum ib_wc_status`.
    fn sent(&self, send: &Arc<SendMad>, status: u32, sleep: &MaySleep);

    /// A MAD was received; it answers the request.
    fn received(&self, request: Option<&Arc<SendMad>>, mad: RecvMad, sleep: &MaySleep);
}

/// Who sends and receives MADs.
#[pin_data]
pub(crate) struct Agent {
    pub(crate) body: AgentBody,
    pub(crate) port: Arc<Port>,
    pub(crate) qp: Arc<SpecialQp<Layer>>,
    pub(crate) registration: Option<RegistrationRequest>,
    pub(crate) client: Client,
    /// It may be given MADs that were received.
    pub(crate) receives: bool,
    /// How many of its requests may be without an answer, of those with flow control; 0: any number.
    pub(crate) max_outstanding: u32,
    /// How many segments of incomplete messages it has.
    pub(crate) held: AtomicU32,
    /// Its MADs, and calls of its client.
    #[pin]
    pub(crate) uses: Uses,
    #[pin]
    pub(crate) table: SpinLockIrq<Table>,
    #[pin]
    pub(crate) timer: DelayedWork<Agent>,
}

embeds!(Agent { body: AgentBody });

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Agent { self.timer }
}

impl Agent {
    /// Whether the core does RMPP for the client.
    pub(crate) fn is_kernel_rmpp(&self) -> bool {
        self.body.is_kernel_rmpp()
    }

    /// Uses the agent, unless it goes.
    pub(crate) fn try_use(self: &Arc<Self>) -> Option<AgentUse> {
        self.uses.get().then(|| AgentUse(self.clone()))
    }

    /// Gives a MAD back to who has posted it.
    pub(crate) fn give_back(&self, origin: Origin, status: u32, vendor_err: u32, sleep: &MaySleep) {
        match (origin, &self.client) {
            (Origin::Client(posted), _) => self.body.tell_sent(posted, status, vendor_err, sleep),
            (Origin::Core(send), Client::Core(client)) => client.sent(&send, status, sleep),
            (Origin::Core(_) | Origin::Layer(_), _) => {}
        }
    }

    /// Gives a MAD to the client that was received, and says which request it answers.
    pub(crate) fn deliver(&self, request: Option<&Arc<SendMad>>, mad: RecvMad, sleep: &MaySleep) {
        match &self.client {
            Client::C => self.body.tell_received(request, mad, sleep),
            Client::Core(client) => client.received(request, mad, sleep),
        }
    }

    /// Lets the work of the agent run when its first time limit is reached. The table is locked.
    pub(crate) fn arm(self: &Arc<Self>, table: &mut Table) {
        let Some(first) = table.first_deadline() else {
            return;
        };
        if table.closed || table.armed.is_some_and(|armed| armed <= first) {
            return;
        }
        table.armed = Some(first);
        let left_ms = first.saturating_sub(now_ns()).div_ceil(1_000_000);
        let left_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
        delayed::enqueue(
            &self.port.workers,
            self,
            kernel::time::msecs_to_jiffies(left_ms),
        );
    }
}

/// An agent that is used: unregistering it waits until this is dropped.
pub(crate) struct AgentUse(Arc<Agent>);

impl core::ops::Deref for AgentUse {
    type Target = Arc<Agent>;

    fn deref(&self) -> &Arc<Agent> {
        &self.0
    }
}

impl Drop for AgentUse {
    fn drop(&mut self) {
        self.0.uses.put();
    }
}

/// A MAD to be sent.
pub(crate) struct SendMad {
    pub(crate) body: SendBody,
    pub(crate) agent: AgentUse,
    /// The transaction ID that it was posted with.
    tid: AtomicU64,
    /// Its place among the MADs that the queue pair was given.
    pub(crate) sequence: AtomicU64,
    /// For tracepoints: how often it may be sent again, and still may.
    pub(crate) max_retries: AtomicU32,
    pub(crate) retries_left: AtomicU32,
}

embeds!(SendMad { body: SendBody });

/// Names a MAD in its agent's table: the transaction ID, and the MAD's address.
pub(crate) type Key = (u64, usize);

impl SendMad {
    /// A MAD for an agent.
    pub(crate) fn new(body: SendBody, agent: AgentUse) -> Self {
        Self {
            body,
            agent,
            tid: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            max_retries: AtomicU32::new(0),
            retries_left: AtomicU32::new(0),
        }
    }

    /// What is traced of it; `retry`: it is sent again because another one has failed.
    pub(crate) fn traced(&self, retry: bool) -> Sent<'_> {
        Sent {
            agent: &self.agent.body,
            send: &self.body,
            attempts: Attempts {
                tid: self.tid.load(Ordering::Relaxed),
                timeout: kernel::time::msecs_to_jiffies(self.body.timeout_ms()),
                max_retries: self.max_retries.load(Ordering::Relaxed),
                retries_left: self.retries_left.load(Ordering::Relaxed),
                retry,
            },
        }
    }

    /// The MAD's header, as it is now.
    pub(crate) fn header(&self) -> Header {
        Header::parse(&self.body.bytes::<MAD_HEADER>(0))
    }

    /// The header of RMPP, as it is now.
    pub(crate) fn rmpp(&self) -> Rmpp {
        Rmpp::parse(&self.body.bytes(RMPP_AT))
    }

    /// Sets the header of RMPP.
    pub(crate) fn set_rmpp(&self, rmpp: &Rmpp) {
        self.body.write(RMPP_AT, &rmpp.bytes());
    }

    /// Whether the agent does RMPP for this MAD.
    pub(crate) fn is_kernel_rmpp(&self) -> bool {
        self.agent.is_kernel_rmpp() && self.rmpp().is_active()
    }

    /// Notes the transaction ID that it is posted with.
    pub(crate) fn note_tid(&self, tid: u64) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// Its name in the agent's table.
    pub(crate) fn key(&self) -> Key {
        let address = core::ptr::from_ref(self).addr();
        (self.tid.load(Ordering::Relaxed), address)
    }
}

/// Who gets a MAD back that was posted.
pub(crate) enum Origin {
    /// A client in C.
    Client(Posted<SendMad>),
    /// A part of the core that has an agent.
    Core(Arc<SendMad>),
    /// The MAD layer, on behalf of an agent: nobody.
    Layer(Arc<SendMad>),
}

impl Origin {
    /// The MAD.
    pub(crate) fn send(&self) -> &Arc<SendMad> {
        match self {
            Self::Client(posted) => posted.send(),
            Self::Core(send) | Self::Layer(send) => send,
        }
    }
}

/// Where a MAD is that is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits until others are answered: it is the n-th that does.
    Queued(u64),
    /// The queue pair has it.
    Sending,
    /// An answer is awaited until then, in nanoseconds.
    Waiting(u64),
}

/// How far a message of RMPP is sent.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Progress {
    /// The segment that was sent last; from 1 on.
    pub(crate) segment: u32,
    /// The last one that the peer has acknowledged.
    pub(crate) last_ack: u32,
    /// The last one that may be sent without another acknowledgement.
    pub(crate) window: u32,
}

/// An entry of the table: a MAD that is posted.
pub(crate) struct Entry {
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    /// How long an answer is awaited, in milliseconds; 0: none is.
    pub(crate) timeout_ms: u32,
    pub(crate) retries_left: u32,
    pub(crate) max_retries: u32,
    /// It counts among the requests that flow control limits.
    pub(crate) is_limited: bool,
    /// The answer came while the queue pair still had it.
    pub(crate) answered: bool,
    pub(crate) canceled: bool,
    /// How it has ended while the queue pair still had it: with `enum ib_wc_status`, and why.
    pub(crate) ended: Option<(u32, u32)>,
    pub(crate) progress: Progress,
    /// For its place among those that wait.
    spare: Option<RBTreeNodeReservation<Place, u64>>,
}

impl Entry {
    /// The MAD.
    pub(crate) fn send(&self) -> &Arc<SendMad> {
        self.origin.send()
    }

    /// Whether it is one of the requests without an answer that flow control counts.
    fn counts(&self) -> bool {
        let is_queued = matches!(self.phase, Phase::Queued(_));
        self.is_limited && !is_queued && !self.answered && !self.canceled
    }
}

/// A place among MADs that wait: a time or a number, and the MAD's address.
type Place = (u64, usize);

/// What an agent does not do at once: SMPs that do not leave the machine.
pub(crate) struct Local {
    pub(crate) origin: Origin,
    /// What is received, and by whom.
    pub(crate) received: Option<(AgentUse, RecvMad)>,
}

/// What the packets of a message of RMPP have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) tid: u64,
    pub(crate) src_qp: u32,
    pub(crate) slid: u32,
    /// The GID of the sender, where packets have one: on RoCE there are no LIDs.
    pub(crate) source: Option<Gid>,
    pub(crate) mgmt_class: u8,
    pub(crate) class_version: u8,
    pub(crate) method: u8,
}

/// How far a message of RMPP is received.
pub(crate) struct Received {
    /// The segments that are there, in their order; none once the message is complete.
    pub(crate) segments: KVec<RecvMad>,
    /// The last segment that all segments before are there of.
    pub(crate) segment: u32,
    /// The last one that was acknowledged.
    pub(crate) last_ack: u32,
    /// The last one that the peer may send.
    pub(crate) window: u32,
    /// The window that the peer gives for the answer.
    pub(crate) answer_window: u32,
    pub(crate) complete: bool,
}

/// A message of RMPP that is being received, or was a while ago: its packets may come again.
#[pin_data]
pub(crate) struct Reassembly {
    pub(crate) agent: Arc<Agent>,
    pub(crate) transaction: Transaction,
    /// The address of the sender, once it is found.
    pub(crate) ah: SetOnce<Arc<OwnAh>>,
    #[pin]
    pub(crate) received: SpinLockIrq<Received>,
    /// Ends it when it takes too long.
    #[pin]
    pub(crate) timer: DelayedWork<Reassembly>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Reassembly { self.timer }
}

/// The MADs of an agent.
pub(crate) struct Table {
    entries: RBTree<Key, Entry>,
    /// Those that wait for an answer, by their time limit.
    waiting: RBTree<Place, u64>,
    /// Those that wait to be sent, by number.
    backlog: RBTree<Place, u64>,
    next_number: u64,
    /// How many of those that flow control limits have no answer.
    pub(crate) outstanding: u32,
    pub(crate) local: KVec<Local>,
    /// Messages that are being received.
    pub(crate) reassemblies: KVec<Arc<Reassembly>>,
    /// When the work runs.
    pub(crate) armed: Option<u64>,
    /// The agent goes: nothing is posted any more.
    pub(crate) closed: bool,
}

impl Table {
    /// No MADs.
    pub(crate) fn new() -> Self {
        Self {
            entries: RBTree::new(),
            waiting: RBTree::new(),
            backlog: RBTree::new(),
            next_number: 0,
            outstanding: 0,
            local: KVec::new(),
            reassemblies: KVec::new(),
            armed: None,
            closed: false,
        }
    }

    /// The MAD of a name.
    pub(crate) fn get(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key)
    }

    /// The first MAD of a transaction for which `wanted` says yes.
    pub(crate) fn find(&self, tid: u64, wanted: impl Fn(&Entry) -> bool) -> Option<Key> {
        let mut address = 0;
        loop {
            let cursor = self.entries.cursor_lower_bound(&(tid, address))?;
            let (&key, entry) = cursor.current();
            if key.0 != tid {
                return None;
            }
            if wanted(entry) {
                return Some(key);
            }
            address = key.1.checked_add(1)?;
        }
    }

    /// The names of all MADs.
    pub(crate) fn first_key(&self, after: Option<Key>) -> Option<Key> {
        let from = match after {
            None => (0, 0),
            Some((tid, address)) => (tid, address.checked_add(1)?),
        };
        let cursor = self.entries.cursor_lower_bound(&from)?;
        Some(*cursor.current().0)
    }

    /// Adds a MAD, which is to be sent at once.
    pub(crate) fn insert(&mut self, new: NewEntry, fill: impl FnOnce(&mut Entry)) {
        let NewEntry { mut node, key } = new;
        fill(&mut node.value);
        let NodeParts { reservation, value } = node;
        // It is counted from now on.
        self.outstanding = self.outstanding.saturating_add(u32::from(value.counts()));
        self.entries.insert(reservation.into_node(key, value));
    }

    /// Whether a MAD of this name is posted.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.entries.get(key).is_some()
    }

    /// Takes a MAD out of the row that it waits in.
    fn unindex(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let node = match entry.phase {
            Phase::Sending => None,
            Phase::Waiting(until) => self.waiting.remove_node(&(until, key.1)),
            Phase::Queued(number) => self.backlog.remove_node(&(number, key.1)),
        };
        if let Some(node) = node {
            entry.spare = Some(node.into_reservation());
        }
    }

    /// Changes what is known of a MAD, but for its phase.
    pub(crate) fn update(&mut self, key: &Key, f: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(key) {
            let before = u32::from(entry.counts());
            f(entry);
            let after = u32::from(entry.counts());
            let rest = self.outstanding.saturating_sub(before);
            self.outstanding = rest.saturating_add(after);
        }
    }

    /// Moves a MAD to another phase.
    pub(crate) fn set_phase(&mut self, key: &Key, phase: Phase) {
        self.unindex(key);
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        let before = u32::from(entry.counts());
        entry.phase = phase;
        let after = u32::from(entry.counts());
        self.outstanding = self
            .outstanding
            .saturating_sub(before)
            .saturating_add(after);
        let (row, place) = match phase {
            Phase::Sending => return,
            Phase::Waiting(until) => (&mut self.waiting, (until, key.1)),
            Phase::Queued(number) => (&mut self.backlog, (number, key.1)),
        };
        if let Some(spare) = entry.spare.take() {
            row.insert(spare.into_node(place, key.0));
        }
    }

    /// Lets a MAD wait for its answer.
    pub(crate) fn wait(&mut self, key: &Key, timeout_ms: u32) {
        let until = now_ns().saturating_add(u64::from(timeout_ms).saturating_mul(1_000_000));
        self.set_phase(key, Phase::Waiting(until));
    }

    /// Lets a MAD wait until others are answered.
    pub(crate) fn queue(&mut self, key: &Key) {
        self.next_number = self.next_number.wrapping_add(1);
        self.set_phase(key, Phase::Queued(self.next_number));
    }

    /// Whether MADs wait until others are answered.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The MAD that has waited longest for others to be answered.
    pub(crate) fn first_queued(&self) -> Option<Key> {
        let cursor = self.backlog.cursor_front()?;
        let (&(_, address), &tid) = cursor.current();
        Some((tid, address))
    }

    /// The MAD whose time limit is reached first.
    pub(crate) fn first_waiting(&self) -> Option<(u64, Key)> {
        let cursor = self.waiting.cursor_front()?;
        let (&(until, address), &tid) = cursor.current();
        Some((until, (tid, address)))
    }

    /// When the work is to run.
    fn first_deadline(&self) -> Option<u64> {
        if !self.local.is_empty() {
            return Some(0);
        }
        self.first_waiting().map(|(until, _)| until)
    }

    /// Takes a MAD out: it is done.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Entry> {
        self.unindex(key);
        let entry = self.entries.remove(key)?;
        self.outstanding = self.outstanding.saturating_sub(u32::from(entry.counts()));
        Some(entry)
    }
}

/// What a node is made of.
struct NodeParts {
    reservation: RBTreeNodeReservation<Key, Entry>,
    value: Entry,
}

/// An entry that is not in a table yet: what it needs is allocated.
pub(crate) struct NewEntry {
    node: NodeParts,
    key: Key,
}

impl NewEntry {
    /// An entry for a MAD, which is to be sent now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the MAD stays its owner's.
    pub(crate) fn new(origin: Origin) -> Result<Self> {
        let reservation = RBTreeNodeReservation::new(GFP_ATOMIC)?;
        let spare = RBTreeNodeReservation::new(GFP_ATOMIC)?;
        let key = origin.send().key();
        let value = Entry {
            origin,
            phase: Phase::Sending,
            timeout_ms: 0,
            retries_left: 0,
            max_retries: 0,
            is_limited: false,
            answered: false,
            canceled: false,
            ended: None,
            progress: Progress::default(),
            spare: Some(spare),
        };
        let node = NodeParts { reservation, value };
        Ok(Self { node, key })
    }

    /// The name of the MAD.
    pub(crate) fn key(&self) -> Key {
        self.key
    }
}

/// What the layer keeps with a special queue pair.
#[pin_data]
pub(crate) struct Queue {
    pub(crate) port_num: u32,
    #[pin]
    pub(crate) outbox: SpinLockIrq<Outbox>,
}

impl Queue {
    /// Nothing is sent; up to `limit` MADs may be at once.
    pub(crate) fn new(port_num: u32, limit: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            port_num,
            outbox <- new_spinlock_irq!(Outbox::new(limit), "Outbox"),
        })
    }
}

/// MADs of a queue pair that wait until it has room, and how many it has.
pub(crate) struct Outbox {
    pub(crate) in_flight: u32,
    pub(crate) limit: u32,
    waiting: RBTree<u64, Arc<SendMad>>,
    next_number: u64,
    /// The number of the MAD that the queue pair is given next.
    pub(crate) next_sequence: u64,
    /// MADs that it was given before that one are given to it again if it has flushed them: one of them has failed.
    pub(crate) again_before: u64,
}

impl Outbox {
    /// Nothing is sent; up to `limit` MADs may be at once.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            in_flight: 0,
            limit,
            waiting: RBTree::new(),
            next_number: 0,
            next_sequence: 1,
            again_before: 0,
        }
    }

    /// Lets a MAD wait.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn push(&mut self, send: &Arc<SendMad>) -> Result {
        let node = RBTreeNode::new(self.next_number, send.clone(), GFP_ATOMIC)?;
        self.next_number = self.next_number.wrapping_add(1);
        self.waiting.insert(node);
        Ok(())
    }

    /// The MAD that has waited longest.
    pub(crate) fn pop(&mut self) -> Option<Arc<SendMad>> {
        let cursor = self.waiting.cursor_front_mut()?;
        let (_, node) = cursor.remove_current();
        Some(node.to_key_value().1)
    }
}

/// The ports, and the agents by number.
struct Registry {
    ports: KVec<OpenPort>,
    agents: KVec<Arc<Agent>>,
    next_number: u32,
}

/// A port that is open, and who answers there for the core.
#[derive(Clone)]
pub(crate) struct OpenPort {
    pub(crate) port: Arc<Port>,
    /// For QP0 and QP1.
    pub(crate) responders: [Option<Arc<Agent>>; 2],
}

impl OpenPort {
    /// Who answers over the queue pair of a kind.
    pub(crate) fn responder(&self, kind: SpecialKind) -> Option<&Arc<Agent>> {
        self.responders
            .iter()
            .flatten()
            .find(|agent| agent.qp.kind() == kind)
    }
}

/// Agents have numbers below: the mlx4 driver uses the upper 8 bits.
const MAX_AGENTS: u32 = 1 << 24;

/// Marks the lock of the registry.
enum RegistryLock {}

impl kernel::sync::lock::GlobalLockBackend for RegistryLock {
    const NAME: &'static CStr = c"ib_core::mad::LAYER";
    type Item = Registry;
    type Backend = IrqBackend;

    fn get_lock_class() -> Pin<&'static LockClassKey> {
        kernel::static_lock_class!()
    }
}

// SAFETY: `init` is called before the module does anything else, and there is one static of this type.
static LAYER: kernel::sync::lock::GlobalLock<RegistryLock> = unsafe {
    kernel::sync::lock::GlobalLock::new(Registry {
        ports: KVec::new(),
        agents: KVec::new(),
        next_number: 0,
    })
};

/// Makes the lock. The module's initialisation calls it, once, before all else.
pub(crate) fn init() {
    // SAFETY: Called once, before there are ports.
    unsafe { LAYER.init() };
}

/// The port of a device, if it is open. Any context.
pub(crate) fn find_port(device: &Device, port_num: u32) -> Option<OpenPort> {
    let registry = LAYER.lock();
    let mut ports = registry.ports.iter();
    ports.find(|open| is(&open.port, device, port_num)).cloned()
}

fn is(port: &Port, device: &Device, port_num: u32) -> bool {
    port.port_num == port_num && core::ptr::eq(&*port.device, device)
}

/// Lets a port be found.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_port(port: Arc<Port>) -> Result {
    let open = OpenPort {
        port,
        responders: [const { None }; 2],
    };
    LAYER.lock().ports.push(open, GFP_ATOMIC)?;
    Ok(())
}

/// Lets a port have those that answer there for the core.
pub(crate) fn set_responders(port: &Arc<Port>, responders: [Option<Arc<Agent>>; 2]) {
    let mut registry = LAYER.lock();
    let mut ports = registry.ports.iter_mut();
    if let Some(open) = ports.find(|open| Arc::ptr_eq(&open.port, port)) {
        open.responders = responders;
    }
}

/// Lets a port not be found any more.
pub(crate) fn remove_port(device: &Device, port_num: u32) -> Option<OpenPort> {
    let mut registry = LAYER.lock();
    let nth = registry
        .ports
        .iter()
        .position(|open| is(&open.port, device, port_num))?;
    registry.ports.remove(nth).ok()
}

/// Gives an agent a number, by which it is found.
///
/// # Errors
///
/// `ENOMEM`, `ENOSPC` where all numbers are taken.
pub(crate) fn add_agent(agent: &Arc<Agent>) -> Result {
    let mut registry = LAYER.lock();
    let mut number = registry.next_number;
    for _ in 0..=registry.agents.len() {
        // 0 is nobody's, so that a transaction ID without an agent finds none.
        number = match number {
            0 | MAX_AGENTS.. => 1,
            number => number,
        };
        let search = |agent: &Arc<Agent>| agent.body.hi_tid();
        if let Err(place) = registry.agents.binary_search_by_key(&number, search) {
            agent.body.set_hi_tid(number);
            registry.agents.reserve(1, GFP_ATOMIC)?;
            // There is room for it.
            let _ = registry.agents.insert_within_capacity(place, agent.clone());
            registry.next_number = number.wrapping_add(1);
            return Ok(());
        }
        number = number.wrapping_add(1);
    }
    Err(ENOSPC)
}

/// Lets an agent not be found any more.
pub(crate) fn remove_agent(agent: &Agent) {
    let mut registry = LAYER.lock();
    let number = agent.body.hi_tid();
    let found = registry
        .agents
        .binary_search_by_key(&number, |agent| agent.body.hi_tid());
    let taken = found.ok().and_then(|nth| registry.agents.remove(nth).ok());
    drop(registry);
    drop(taken);
}

/// The agent that has a number. Any context.
pub(crate) fn find_agent(number: u32) -> Option<AgentUse> {
    let registry = LAYER.lock();
    let found = registry
        .agents
        .binary_search_by_key(&number, |agent| agent.body.hi_tid());
    registry.agents.get(found.ok()?)?.try_use()
}
