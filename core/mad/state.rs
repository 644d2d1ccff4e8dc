// SPDX-License-Identifier: GPL-2.0

//! Data of the MAD layer: ports, their agents, and the posted MADs of agents.
//!
//! A posted MAD is an entry of its agent's table:
//!
//! | phase | the MAD is |
//! |---|---|
//! | [`Phase::Queued`] | waiting for flow control |
//! | [`Phase::Sending`] | posted to the queue pair; the response may arrive before the send completion |
//! | [`Phase::Waiting`] | sent, waiting for the response |
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Port::registrations` | which agent gets which requests | any context | nothing |
//! | `Port::answers` | the core's answers that have no address yet | process context | the work queue |
//! | `Agent::table` | the MADs of an agent | any context | `Reassembly::received`, `Outbox`, the work queue |
//! | `Reassembly::received` | the segments of a message | any context | nothing |
//!
//! C header: `include/rdma/ib_mad.h`.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kernel::{
    impl_has_delayed_work, impl_has_work,
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::{Arc, SetOnce},
    workqueue::{DelayedWork, Work},
};
use kernel_ext::{
    delayed,
    sleepable::Sleepable,
    sync::SpinLockIrq,
    timer::now_ns,
    uses::{Use, Used, Uses},
    work::OwnedQueue,
};
use rdma::{
    core::{
        device,
        mad::{
            agent::{self, AgentBody, AgentInUse, OfAgent, RegistrationRequest},
            qp::{SpecialKind, SpecialQp},
            recv::{RecvMad, Sender},
            send::{Addressed, OwnAh, Posted, PostedBody, SendBody},
            trace::{Attempts, Sent},
        },
    },
    embeds, Gid, MaySleep,
};

use super::header::{Header, Rmpp, MAD_HEADER, RMPP_AT};

/// The MAD layer as the user of the special queue pairs.
pub(crate) enum Layer {}

/// A port that sends and receives MADs.
#[pin_data]
pub(crate) struct Port {
    /// It stays registered until `remove` has closed the port, and all users of the port have gone.
    pub(crate) device: device::Registered,
    pub(crate) port_num: u32,
    /// Whether it also receives Omni-Path MADs.
    pub(crate) is_opa: bool,
    /// Maximum length of a MAD, in bytes.
    pub(crate) mad_size: usize,
    /// QP0 and QP1, if the port has them.
    pub(crate) qps: [Option<Arc<SpecialQp<Layer>>>; 2],
    #[pin]
    pub(crate) registrations: SpinLockIrq<KVec<Registered>>,
    /// The ordered workqueue of its agents' timeouts.
    pub(crate) workers: OwnedQueue,
    /// Responses of the core and RMPP packets whose addresses are not resolved. `None` once the port is closed.
    #[pin]
    pub(crate) answers: SpinLockIrq<Option<KVec<Answer>>>,
    pub(crate) answerer: OwnedQueue,
    #[pin]
    pub(crate) answering: Work<Sleepable<Port>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Port { self.answering }
}

/// A response of the core, or an RMPP packet other than DATA.
pub(crate) struct Answer {
    /// The agent that sends it.
    pub(crate) agent: Arc<Agent>,
    pub(crate) to: Sender,
    /// The MAD; of an RMPP packet its headers.
    pub(crate) mad: KVec<u8>,
    pub(crate) is_rmpp: bool,
    /// The message from the same sender, which caches its address.
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

/// An agent that is registered for requests.
pub(crate) struct Registered {
    pub(crate) request: RegistrationRequest,
    pub(crate) agent: Arc<Agent>,
}

/// The owner of an agent.
pub(crate) enum Client {
    /// A client in C, with handlers.
    C,
    /// A part of the core.
    Core(Arc<dyn MadClient>),
}

/// Callbacks of a part of the core that has an agent.
pub(crate) trait MadClient: Send + Sync {
    /// A MAD was sent, or failed: `enum ib_wc_status`.
    fn sent(&self, send: &Arc<SendMad>, status: u32, sleep: &MaySleep);

    /// A MAD was received; `request` is the one that it answers.
    fn received(&self, request: Option<&Arc<SendMad>>, mad: RecvMad, sleep: &MaySleep);
}

/// An agent, which sends and receives MADs.
#[pin_data]
pub(crate) struct Agent {
    pub(crate) body: AgentBody,
    pub(crate) port: Arc<Port>,
    pub(crate) qp: Arc<SpecialQp<Layer>>,
    pub(crate) registration: Option<RegistrationRequest>,
    pub(crate) client: Client,
    /// Whether received MADs are delivered to it.
    pub(crate) receives: bool,
    /// Limit of outstanding requests under flow control; 0: none.
    pub(crate) max_outstanding: u32,
    /// Number of segments of its incomplete messages.
    pub(crate) held: AtomicU32,
    /// Users: its MADs and running callbacks.
    #[pin]
    pub(crate) uses: Uses,
    #[pin]
    pub(crate) table: SpinLockIrq<Table>,
    #[pin]
    pub(crate) timer: DelayedWork<Sleepable<Agent>>,
}

embeds! {
    // SAFETY: No other type of this module has an `AgentBody`.
    unsafe impl Embeds for Agent { body: AgentBody }
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Agent { self.timer }
}

// SAFETY: The count is a member.
unsafe impl Used for Agent {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

impl Agent {
    /// Whether the core does RMPP for the client.
    pub(crate) fn is_kernel_rmpp(&self) -> bool {
        self.body.is_kernel_rmpp()
    }

    /// Takes a use of the agent, unless it is being unregistered.
    pub(crate) fn try_use(self: &Arc<Self>) -> Option<AgentUse> {
        Use::new(self).map(AgentUse)
    }

    /// Returns a MAD to its owner.
    pub(crate) fn give_back(&self, origin: Origin, status: u32, vendor_err: u32, sleep: &MaySleep) {
        match (origin, &self.client) {
            (Origin::Client(posted), _) => agent::tell_sent(posted, status, vendor_err, sleep),
            (Origin::Core(send), Client::Core(client)) => client.sent(&send, status, sleep),
            (Origin::Core(_) | Origin::Layer(_), _) => {}
        }
    }

    /// Schedules the agent's work for its first deadline. The table is locked.
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

/// A use of an agent: unregistering waits until it is dropped.
pub(crate) struct AgentUse(Use<Agent>);

impl core::ops::Deref for AgentUse {
    type Target = Arc<Agent>;

    fn deref(&self) -> &Arc<Agent> {
        &self.0
    }
}

// SAFETY: `agent::unregister`, by which a client unregisters its agent, waits in `Uses::end` until the value is dropped.
unsafe impl AgentInUse for AgentUse {
    type Agent = Agent;

    fn agent(&self) -> &Arc<Agent> {
        &self.0
    }
}

impl AgentUse {
    /// Delivers a received MAD to the client, with the request that it answers.
    pub(crate) fn deliver(&self, request: Option<&Arc<SendMad>>, mad: RecvMad, sleep: &MaySleep) {
        match &self.client {
            Client::C => agent::tell_received(self, request, mad, sleep),
            Client::Core(client) => client.received(request, mad, sleep),
        }
    }
}

/// A MAD to be sent.
pub(crate) struct SendMad {
    pub(crate) body: SendBody,
    pub(crate) agent: AgentUse,
    /// The transaction ID that it was posted with.
    tid: AtomicU64,
    /// Its sequence number among the MADs posted to the queue pair.
    pub(crate) sequence: AtomicU64,
    /// For tracepoints: the number of retries allowed, and left.
    pub(crate) max_retries: AtomicU32,
    pub(crate) retries_left: AtomicU32,
}

embeds! {
    // SAFETY: No other type of this module has a `SendBody`.
    unsafe impl Embeds for SendMad { body: SendBody }
}

// SAFETY: The use is a member that is private to the layer, which never changes it. C allocates the MAD by that agent.
unsafe impl OfAgent for SendMad {
    type Use = AgentUse;

    fn agent(&self) -> &AgentUse {
        &self.agent
    }
}

/// Identifies a MAD in its agent's table: transaction ID, and address of the MAD.
pub(crate) type Key = (u64, usize);

impl SendMad {
    /// A MAD for an agent.
    pub(crate) fn new(body: impl Init<SendBody>, agent: AgentUse) -> impl Init<Self> {
        init!(Self {
            body <- body,
            agent,
            tid: AtomicU64::new(0),
            sequence: AtomicU64::new(0),
            max_retries: AtomicU32::new(0),
            retries_left: AtomicU32::new(0),
        })
    }

    /// The MAD's current header.
    pub(crate) fn header(&self) -> Header {
        Header::parse(&self.body.bytes::<MAD_HEADER>(0))
    }

    /// The current RMPP header.
    pub(crate) fn rmpp(&self) -> Rmpp {
        Rmpp::parse(&self.body.bytes(RMPP_AT))
    }

    /// Sets the RMPP header.
    pub(crate) fn set_rmpp(&self, rmpp: &Rmpp) {
        self.body.write(RMPP_AT, &rmpp.bytes());
    }

    /// Whether the core does RMPP for this MAD.
    pub(crate) fn is_kernel_rmpp(&self) -> bool {
        self.agent.is_kernel_rmpp() && self.rmpp().is_active()
    }

    /// Records the transaction ID that it is posted with.
    pub(crate) fn note_tid(&self, tid: u64) {
        self.tid.store(tid, Ordering::Relaxed);
    }

    /// Its key in the agent's table.
    pub(crate) fn key(&self) -> Key {
        let address = core::ptr::from_ref(self).addr();
        (self.tid.load(Ordering::Relaxed), address)
    }
}

/// A MAD for a tracepoint; `retry`: it is posted again after another one has failed.
pub(crate) fn traced(send: &Addressed<SendMad>, retry: bool) -> Sent<'_> {
    Sent {
        agent: &send.agent.body,
        send: send.posted(),
        attempts: Attempts {
            tid: send.tid.load(Ordering::Relaxed),
            timeout: kernel::time::msecs_to_jiffies(send.body.timeout_ms()),
            max_retries: send.max_retries.load(Ordering::Relaxed),
            retries_left: send.retries_left.load(Ordering::Relaxed),
            retry,
        },
    }
}

/// The owner of a posted MAD.
pub(crate) enum Origin {
    /// A client in C.
    Client(Posted<SendMad>),
    /// A part of the core that has an agent.
    Core(Arc<SendMad>),
    /// The MAD layer itself, on behalf of an agent.
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

    /// The MAD as one that is posted; the core's own MADs have an address handle of their own.
    pub(crate) fn posted(&self) -> Option<PostedBody<'_>> {
        match self {
            Self::Client(posted) => Some(posted.posted()),
            Self::Core(send) | Self::Layer(send) => PostedBody::own(&send.body),
        }
    }

    /// The MAD for the queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` without an address.
    pub(crate) fn addressed(&self) -> Result<Addressed<SendMad>> {
        match self {
            Self::Client(posted) => Ok(posted.addressed()),
            Self::Core(send) | Self::Layer(send) => Addressed::own(send),
        }
    }
}

/// State of a posted MAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It waits for flow control, with this sequence number.
    Queued(u64),
    /// It is posted to the queue pair.
    Sending,
    /// It waits for a response until this time, in nanoseconds.
    Waiting(u64),
}

/// Progress of an RMPP message that is being sent.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Progress {
    /// The last segment sent; counted from 1.
    pub(crate) segment: u32,
    /// The last acknowledged segment.
    pub(crate) last_ack: u32,
    /// The last segment that may be sent without another ACK.
    pub(crate) window: u32,
}

/// An entry of the table: a posted MAD.
pub(crate) struct Entry {
    pub(crate) origin: Origin,
    pub(crate) phase: Phase,
    /// Response timeout, in milliseconds; 0: no response is expected.
    pub(crate) timeout_ms: u32,
    pub(crate) retries_left: u32,
    pub(crate) max_retries: u32,
    /// Whether it is under flow control.
    pub(crate) is_limited: bool,
    /// The response arrived before the send completion.
    pub(crate) answered: bool,
    pub(crate) canceled: bool,
    /// Its status, if it ended before the send completion: `enum ib_wc_status` and vendor error.
    pub(crate) ended: Option<(u32, u32)>,
    pub(crate) progress: Progress,
    /// A preallocated node for [`Table::waiting`] and [`Table::backlog`].
    spare: Option<RBTreeNodeReservation<QueueKey, u64>>,
}

impl Entry {
    fn new(origin: Origin, spare: RBTreeNodeReservation<QueueKey, u64>) -> Self {
        Self {
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
        }
    }

    /// The MAD.
    pub(crate) fn send(&self) -> &Arc<SendMad> {
        self.origin.send()
    }

    /// Whether it counts as an outstanding request of flow control.
    fn is_outstanding(&self) -> bool {
        let is_queued = matches!(self.phase, Phase::Queued(_));
        self.is_limited && !is_queued && !self.answered && !self.canceled
    }
}

/// Key in a queue: a deadline or sequence number, and the MAD's address.
type QueueKey = (u64, usize);

/// A locally handled SMP that the agent's work delivers.
pub(crate) struct Local {
    pub(crate) origin: Origin,
    /// What is delivered, and to which agent.
    pub(crate) received: Option<(AgentUse, RecvMad)>,
}

/// Identification of an RMPP transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) tid: u64,
    pub(crate) src_qp: u32,
    pub(crate) slid: u32,
    /// The sender's GID, if packets have a GRH: RoCE has no LIDs.
    pub(crate) source: Option<Gid>,
    pub(crate) mgmt_class: u8,
    pub(crate) class_version: u8,
    pub(crate) method: u8,
}

/// Receive state of an RMPP message.
pub(crate) struct Received {
    /// The segments received, sorted; empty once the message is complete.
    pub(crate) segments: KVec<RecvMad>,
    /// The last segment received in order.
    pub(crate) segment: u32,
    /// The last segment acknowledged.
    pub(crate) last_ack: u32,
    /// The last segment that the peer may send.
    pub(crate) window: u32,
    /// The initial window for the response.
    pub(crate) answer_window: u32,
    pub(crate) complete: bool,
}

/// An RMPP message that is being received, or was received recently: its packets may be repeated.
#[pin_data]
pub(crate) struct Reassembly {
    pub(crate) agent: Arc<Agent>,
    pub(crate) transaction: Transaction,
    /// The sender's address, once it is resolved.
    pub(crate) ah: SetOnce<Arc<OwnAh>>,
    #[pin]
    pub(crate) received: SpinLockIrq<Received>,
    /// Timeout of the message.
    #[pin]
    pub(crate) timer: DelayedWork<Sleepable<Reassembly>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Reassembly { self.timer }
}

/// Nodes of trees that are kept for the next MADs of an agent.
const KEPT_NODES: usize = 16;

/// The posted MADs of an agent.
pub(crate) struct Table {
    /// An entry is taken out before its node is removed.
    entries: RBTree<Key, Option<Entry>>,
    /// Those waiting for a response, by deadline.
    waiting: RBTree<QueueKey, u64>,
    /// Those waiting for flow control, by sequence number.
    backlog: RBTree<QueueKey, u64>,
    /// Nodes of MADs that have ended, up to [`KEPT_NODES`].
    kept: KVec<Nodes>,
    next_number: u64,
    /// Number of outstanding requests under flow control.
    pub(crate) outstanding: u32,
    pub(crate) local: KVec<Local>,
    /// Messages that are being received.
    pub(crate) reassemblies: KVec<Arc<Reassembly>>,
    /// When the work is scheduled.
    pub(crate) armed: Option<u64>,
    /// The agent is being unregistered: nothing is posted any more.
    pub(crate) closed: bool,
}

impl Table {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            entries: RBTree::new(),
            waiting: RBTree::new(),
            backlog: RBTree::new(),
            kept: KVec::with_capacity(KEPT_NODES, GFP_KERNEL)?,
            next_number: 0,
            outstanding: 0,
            local: KVec::new(),
            reassemblies: KVec::new(),
            armed: None,
            closed: false,
        })
    }

    /// The MAD with a key.
    pub(crate) fn get(&mut self, key: &Key) -> Option<&mut Entry> {
        self.entries.get_mut(key)?.as_mut()
    }

    /// The first MAD of a transaction that `wanted` accepts.
    pub(crate) fn find(&self, tid: u64, wanted: impl Fn(&Entry) -> bool) -> Option<Key> {
        let mut address = 0;
        loop {
            let cursor = self.entries.cursor_lower_bound(&(tid, address))?;
            let (&key, entry) = cursor.current();
            if key.0 != tid {
                return None;
            }
            if entry.as_ref().is_some_and(&wanted) {
                return Some(key);
            }
            address = key.1.checked_add(1)?;
        }
    }

    /// The next key after `after`.
    pub(crate) fn first_key(&self, after: Option<Key>) -> Option<Key> {
        let from = match after {
            None => (0, 0),
            Some((tid, address)) => (tid, address.checked_add(1)?),
        };
        let cursor = self.entries.cursor_lower_bound(&from)?;
        Some(*cursor.current().0)
    }

    /// Adds a MAD that is about to be sent.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; the MAD stays with its owner.
    pub(crate) fn insert(
        &mut self,
        origin: Origin,
        key: Key,
        fill: impl FnOnce(&mut Entry),
    ) -> Result {
        let nodes = match self.kept.pop() {
            Some(nodes) => nodes,
            None => Nodes::new()?,
        };
        let mut entry = Entry::new(origin, nodes.queue);
        fill(&mut entry);
        // Outstanding from now on.
        self.outstanding = self
            .outstanding
            .saturating_add(u32::from(entry.is_outstanding()));
        self.entries.insert(nodes.entry.into_node(key, Some(entry)));
        Ok(())
    }

    /// Whether the table has a MAD with this key.
    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.entries.get(key).is_some()
    }

    /// Changes an entry, except for its phase.
    pub(crate) fn update(&mut self, key: &Key, f: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(key).and_then(Option::as_mut) {
            let before = u32::from(entry.is_outstanding());
            f(entry);
            let after = u32::from(entry.is_outstanding());
            let rest = self.outstanding.saturating_sub(before);
            self.outstanding = rest.saturating_add(after);
        }
    }

    /// Changes the phase of a MAD.
    pub(crate) fn set_phase(&mut self, key: &Key, phase: Phase) {
        let Some(entry) = self.entries.get_mut(key).and_then(Option::as_mut) else {
            return;
        };
        unqueue(entry, key.1, &mut self.waiting, &mut self.backlog);
        let before = u32::from(entry.is_outstanding());
        entry.phase = phase;
        let after = u32::from(entry.is_outstanding());
        self.outstanding = self
            .outstanding
            .saturating_sub(before)
            .saturating_add(after);
        let (queue, queue_key) = match phase {
            Phase::Sending => return,
            Phase::Waiting(until) => (&mut self.waiting, (until, key.1)),
            Phase::Queued(number) => (&mut self.backlog, (number, key.1)),
        };
        if let Some(spare) = entry.spare.take() {
            queue.insert(spare.into_node(queue_key, key.0));
        }
    }

    /// Lets a MAD wait for its response.
    pub(crate) fn wait(&mut self, key: &Key, timeout_ms: u32) {
        let until = now_ns().saturating_add(u64::from(timeout_ms).saturating_mul(1_000_000));
        self.set_phase(key, Phase::Waiting(until));
    }

    /// Queues a MAD for flow control.
    pub(crate) fn queue(&mut self, key: &Key) {
        self.next_number = self.next_number.wrapping_add(1);
        self.set_phase(key, Phase::Queued(self.next_number));
    }

    /// Whether MADs are queued for flow control.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The oldest queued MAD.
    pub(crate) fn first_queued(&self) -> Option<Key> {
        let cursor = self.backlog.cursor_front()?;
        let (&(_, address), &tid) = cursor.current();
        Some((tid, address))
    }

    /// The MAD with the earliest deadline.
    pub(crate) fn first_waiting(&self) -> Option<(u64, Key)> {
        let cursor = self.waiting.cursor_front()?;
        let (&(until, address), &tid) = cursor.current();
        Some((until, (tid, address)))
    }

    /// When the work must run.
    fn first_deadline(&self) -> Option<u64> {
        if !self.local.is_empty() {
            return Some(0);
        }
        self.first_waiting().map(|(until, _)| until)
    }

    /// Removes a completed MAD.
    pub(crate) fn remove(&mut self, key: &Key) -> Option<Entry> {
        let mut place = self.entries.find_mut(key)?;
        let mut entry = place.get_mut().take()?;
        let node = place.remove_node();
        unqueue(&mut entry, key.1, &mut self.waiting, &mut self.backlog);
        self.outstanding = self
            .outstanding
            .saturating_sub(u32::from(entry.is_outstanding()));
        if let Some(queue) = entry.spare.take() {
            let entry = node.into_reservation();
            // They are freed if enough are kept.
            let _ = self.kept.push_within_capacity(Nodes { entry, queue });
        }
        Some(entry)
    }
}

/// Removes a MAD, which is at this address, from the queue of its phase.
fn unqueue(
    entry: &mut Entry,
    address: usize,
    waiting: &mut RBTree<QueueKey, u64>,
    backlog: &mut RBTree<QueueKey, u64>,
) {
    let node = match entry.phase {
        Phase::Sending => None,
        Phase::Waiting(until) => waiting.remove_node(&(until, address)),
        Phase::Queued(number) => backlog.remove_node(&(number, address)),
    };
    if let Some(node) = node {
        entry.spare = Some(node.into_reservation());
    }
}

/// The nodes that a MAD needs while it is posted.
struct Nodes {
    entry: RBTreeNodeReservation<Key, Option<Entry>>,
    /// For [`Table::waiting`] and [`Table::backlog`].
    queue: RBTreeNodeReservation<QueueKey, u64>,
}

impl Nodes {
    fn new() -> Result<Self> {
        Ok(Self {
            entry: RBTreeNodeReservation::new(GFP_ATOMIC)?,
            queue: RBTreeNodeReservation::new(GFP_ATOMIC)?,
        })
    }
}
