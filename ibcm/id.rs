// SPDX-License-Identifier: GPL-2.0

//! Identifiers: the protocol's half, the addresses, and what waits for the client.
//!
//! What comes for an identifier (messages, messages that were not answered, times that are over) goes into its inbox. Its work item takes
//! one after the other: it does what the table of states says, then calls the handler. So events come in order, one at a time, and a
//! handler that waits keeps nobody else waiting.
//!
//! C header: `include/rdma/ib_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `CmId::inner` | the connection and the addresses of an identifier; held while it sends | process context | `TABLES`, `Port::agents`, `Pending::posted` |
//! | `CmId::inbox` | what waits for the work item | any, interrupts off | the work queue's |

use core::sync::atomic::{AtomicBool, Ordering};

use ib_cm_protocol::{
    connection::Connection,
    messages::Attribute,
    remote::{Remote, SidrKey},
    states::State,
};
use kernel::{
    new_work,
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::{
    bindings::{
        IB_CM_ESTABLISHED, IB_CM_LAP_IDLE, IB_CM_LAP_UNINIT, IB_CM_MRA_REP_RCVD, IB_CM_REP_SENT,
    },
    error::EISCONN,
    sleepable::{self, Sleepable},
    sync::{new_spinlock_irq, SpinLockIrq},
    uses::{Use, Used, Uses},
    work::GlobalQueue,
};
use rdma::{
    client::{
        attachment::Attached,
        mad::{self, Pending, Received},
    },
    core::{
        address_vector::AddressVector,
        cm::{id::IdBody, trace},
        path::Path,
    },
    embeds, MaySleep,
};

use crate::port::Port;

/// The queue of all identifiers.
pub(crate) static QUEUE: GlobalQueue = GlobalQueue::new();

/// An identifier.
#[pin_data]
pub(crate) struct CmId {
    pub(crate) body: IdBody,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    inbox: SpinLockIrq<Inbox>,
    /// The client has said that the connection is there, and the work item does not know yet.
    is_established: AtomicBool,
    has_alternate: AtomicBool,
    /// Requests of peers that the client of the listener is to be told of.
    #[pin]
    pub(crate) uses: Uses,
    #[pin]
    pub(super) work: Work<Sleepable<CmId>>,
    /// Keeps the device, which the body names, after the client has given the identifier up.
    _device: Option<Attached>,
}

embeds! {
    // SAFETY: No other type of this module has an `IdBody`.
    unsafe impl Embeds for CmId { body: IdBody }
}

// SAFETY: The count is a field of the identifier.
unsafe impl Used for CmId {
    fn uses(&self) -> &Uses {
        &self.uses
    }
}

/// An address vector and the port that it leads from.
pub(crate) struct Av {
    pub(crate) port: Arc<Port>,
    pub(crate) vector: AddressVector,
    pub(crate) pkey_index: u16,
    /// The LID for data, where it is not that for messages.
    pub(crate) data_lid: Option<u16>,
    /// The vector refers to the GID of the device: it is dropped before this.
    pub(crate) device: Attached,
}

/// What a posted message owns.
pub(crate) struct Ticket {
    /// The identifier that waits for the answer, and which of its messages this is.
    pub(crate) waits: Option<(Arc<CmId>, u64)>,
    /// What it is.
    pub(crate) attribute: Attribute,
    /// Whether it answers a duplicate.
    pub(crate) is_resent: bool,
}

/// A message that an identifier or a port sends.
pub(crate) type Message = mad::Message<Arc<Pending<Ticket>>>;

/// What of an identifier changes.
pub(crate) struct Inner {
    pub(crate) connection: Connection,
    pub(crate) av: Option<Arc<Av>>,
    pub(crate) alternate: Option<Arc<Av>>,
    /// The message that waits for its answer, and which of all it is.
    pub(crate) pending: Option<Arc<Pending<Ticket>>>,
    pub(crate) serial: u64,
    /// Whether the peer is in the tables, by this identifier.
    pub(crate) admitted: Option<Remote>,
    pub(crate) sidr: Option<SidrKey>,
    /// The connection is there because the client has said so, and the client has not been told.
    pub(crate) is_settled: bool,
}

/// A request of a peer, for the listener's client. Who destroys the listener waits until the client has been told.
pub(crate) struct Offer {
    pub(crate) listener: Use<CmId>,
    pub(crate) primary: Option<KBox<Path>>,
    pub(crate) alternate: Option<KBox<Path>>,
}

/// What comes for an identifier.
pub(crate) enum Entry {
    /// A message.
    Message(Attribute, Received, Arc<Port>),
    /// The REQ or SIDR_REQ that has made the identifier.
    Offered(Attribute, Received, Arc<Port>, Offer),
    /// The message with this number has ended, without an answer: `enum ib_wc_status`.
    Unanswered(u64, u32),
    /// The time is over in which datagrams of this peer, if it is known, may come.
    Expired(Option<Remote>),
    /// The client has said that the connection is there.
    Established,
    /// The queue pair has migrated to the alternate path.
    Migrated,
}

/// Why an entry is not in the inbox.
pub(crate) enum Refused {
    /// There is no room, or no memory. It is lost: messages come again.
    NoRoom,
    /// The identifier has ended. This has come for it.
    Ended(Entry),
}

/// What has a place of its own, and how many entries that came before it are left.
struct Behind<T> {
    what: T,
    entries: usize,
}

impl<T: Copy> Behind<T> {
    /// Takes what has no entries before it.
    fn take(place: &mut Option<Self>) -> Option<T> {
        let is_due = place.as_ref().is_some_and(|place| place.entries == 0);
        let due = if is_due { place.take() } else { None };
        due.map(|place| place.what)
    }

    /// An entry has been taken.
    fn advance(place: &mut Option<Self>) {
        if let Some(place) = place {
            place.entries = place.entries.saturating_sub(1);
        }
    }
}

/// What waits for the work item, oldest first. What nobody repeats has a place of its own, so that it is not lost without memory.
struct Inbox {
    /// The first entry: most identifiers have one at a time, and need no array.
    first: Option<Entry>,
    /// Those behind it.
    others: KVec<Entry>,
    unanswered: Option<Behind<(u64, u32)>>,
    expired: Option<Behind<Option<Remote>>>,
    /// The client has given the identifier up.
    is_closed: bool,
}

/// Entries of an inbox: peers repeat their messages.
const MAX_ENTRIES: usize = 64;

impl Inbox {
    fn is_empty(&self) -> bool {
        self.first.is_none() && self.unanswered.is_none() && self.expired.is_none()
    }

    /// Puts something in; gives back what has no room.
    fn put(&mut self, entry: Entry) -> Result<(), Entry> {
        let entries = usize::from(self.first.is_some()).saturating_add(self.others.len());
        if self.is_closed {
            return Err(entry);
        }
        match entry {
            Entry::Unanswered(serial, status) => {
                // Of two messages the newer one is waited for.
                let place = self.unanswered.take();
                let older = place.filter(|place| place.what.0 > serial);
                let what = (serial, status);
                self.unanswered = older.or(Some(Behind { what, entries }));
            }
            Entry::Expired(what) => self.expired = Some(Behind { what, entries }),
            entry if self.first.is_none() => self.first = Some(entry),
            entry if entries >= MAX_ENTRIES => return Err(entry),
            entry => {
                if self.others.reserve(1, GFP_ATOMIC).is_err() {
                    return Err(entry);
                }
                return self
                    .others
                    .push_within_capacity(entry)
                    .map_err(|error| error.0);
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Entry> {
        if let Some((serial, status)) = Behind::take(&mut self.unanswered) {
            return Some(Entry::Unanswered(serial, status));
        }
        if let Some(remote) = Behind::take(&mut self.expired) {
            return Some(Entry::Expired(remote));
        }
        let entry = self.first.take();
        self.first = self.others.remove(0).ok();
        Behind::advance(&mut self.unanswered);
        Behind::advance(&mut self.expired);
        entry
    }
}

impl CmId {
    /// An identifier whose connection has this state, for the device of its body.
    pub(crate) fn new(
        body: IdBody,
        connection: Connection,
        device: Option<Attached>,
    ) -> Result<Arc<Self>> {
        let inner = Inner {
            connection,
            av: None,
            alternate: None,
            pending: None,
            serial: 0,
            admitted: None,
            sidr: None,
            is_settled: false,
        };
        let inbox = Inbox {
            first: None,
            others: KVec::new(),
            unanswered: None,
            expired: None,
            is_closed: false,
        };
        let init = pin_init!(Self {
            body,
            inner <- new_mutex!(inner, "CmId::inner"),
            inbox <- new_spinlock_irq!(inbox, "CmId::inbox"),
            is_established: AtomicBool::new(false),
            has_alternate: AtomicBool::new(false),
            uses <- Uses::new(),
            work <- new_work!("CmId::work"),
            _device: device,
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Lets `f` change the identifier, and shows C its state.
    pub(crate) fn with<R>(&self, _sleep: &MaySleep, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = f(&mut inner);
        self.has_alternate
            .store(inner.alternate.is_some(), Ordering::Relaxed);
        let numbers = self.body.numbers();
        let connection = &inner.connection;
        numbers
            .remote_id
            .store(connection.remote_id.to_be(), Ordering::Relaxed);
        numbers
            .lap_state
            .store(connection.lap_state() as u32, Ordering::Relaxed);
        numbers
            .state
            .store(connection.state() as u32, Ordering::Release);
        result
    }

    /// The identifier's number, in host order.
    pub(crate) fn number(&self) -> u32 {
        u32::from_be(self.body.local_id())
    }

    /// The peer's number, in host order.
    pub(crate) fn remote_id(&self) -> u32 {
        u32::from_be(self.body.numbers().remote_id.load(Ordering::Relaxed))
    }

    /// Puts something into the inbox. Any context.
    pub(crate) fn post(self: &Arc<Self>, entry: Entry) -> Result<(), Refused> {
        self.put(entry)?;
        self.start();
        Ok(())
    }

    /// As [`Self::post`], before the work item may take it: [`Self::start`] follows.
    pub(crate) fn put(&self, entry: Entry) -> Result<(), Refused> {
        let mut inbox = self.inbox.lock();
        let has_ended = inbox.is_closed;
        let refused = inbox.put(entry);
        // A message is freed without the lock.
        drop(inbox);
        refused.map_err(|entry| match has_ended {
            true => Refused::Ended(entry),
            false => Refused::NoRoom,
        })
    }

    /// Lets the work item take what is in the inbox.
    pub(crate) fn start(self: &Arc<Self>) {
        let inbox = self.inbox.lock();
        // With the lock, so that it is not queued after the inbox is closed, which empties it.
        if !inbox.is_empty() {
            self.queue();
        }
    }

    /// A message has ended: the sender hears of it if it was not answered.
    pub(crate) fn message_ended(self: &Arc<Self>, serial: u64, status: u32) {
        use kernel_ext::bindings::{IB_WC_SUCCESS, IB_WC_WR_FLUSH_ERR};
        if status != IB_WC_SUCCESS && status != IB_WC_WR_FLUSH_ERR {
            let _ = self.post(Entry::Unanswered(serial, status));
        }
    }

    /// Takes the oldest entry, and queues the work for the next one.
    pub(super) fn next_entry(self: &Arc<Self>) -> Option<Entry> {
        let mut inbox = self.inbox.lock();
        let entry = inbox.take();
        if !inbox.is_empty() {
            self.queue();
        }
        entry
    }

    /// Closes the inbox. The result has what was in it.
    pub(crate) fn close(&self) -> (Option<Entry>, KVec<Entry>) {
        let mut inbox = self.inbox.lock();
        inbox.is_closed = true;
        inbox.unanswered = None;
        inbox.expired = None;
        let others = core::mem::replace(&mut inbox.others, KVec::new());
        (inbox.first.take(), others)
    }

    fn queue(self: &Arc<Self>) {
        QUEUE.with(|queue| sleepable::enqueue(queue, self));
    }

    /// The client has received data: the connection is there, though the RTU is not. Any context.
    ///
    /// # Errors
    ///
    /// `EISCONN` if that is known, `EINVAL` in other states; `ENOMEM`.
    pub(crate) fn establish(self: &Arc<Self>) -> Result {
        let state = &self.body.numbers().state;
        match state.load(Ordering::Acquire) {
            IB_CM_REP_SENT | IB_CM_MRA_REP_RCVD => {}
            IB_CM_ESTABLISHED => return Err(EISCONN),
            other => {
                trace::icm_establish_err(&self.body, other);
                return Err(EINVAL);
            }
        }
        if self.is_established.swap(true, Ordering::AcqRel) {
            return Err(EISCONN);
        }
        if self.post(Entry::Established).is_err() {
            self.note_established();
            return Err(ENOMEM);
        }
        Ok(())
    }

    /// The queue pair has migrated to the alternate path. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` without a connection or another path; `ENOMEM`.
    pub(crate) fn migrate(self: &Arc<Self>) -> Result {
        let numbers = self.body.numbers();
        let lap = numbers.lap_state.load(Ordering::Relaxed);
        let is_there = numbers.state.load(Ordering::Acquire) == IB_CM_ESTABLISHED;
        let is_free = matches!(lap, IB_CM_LAP_UNINIT | IB_CM_LAP_IDLE);
        if !is_there || !is_free || !self.has_alternate.load(Ordering::Relaxed) {
            return Err(EINVAL);
        }
        self.post(Entry::Migrated).map_err(|_| ENOMEM)
    }

    /// Whether the client has said that the connection is there, and the work item does not know yet.
    pub(crate) fn notes_established(&self) -> bool {
        self.is_established.load(Ordering::Acquire)
    }

    /// The work item knows that the client has said so.
    pub(crate) fn note_established(&self) {
        self.is_established.store(false, Ordering::Release);
    }
}

/// Whether an identifier in this state listens.
pub(crate) fn listens(connection: &Connection) -> bool {
    connection.state() == State::Listen
}
