// SPDX-License-Identifier: GPL-2.0

//! Identifiers: what is counted, locked and queued, and what a call or an event does to the state.
//!
//! C header: `include/rdma/iw_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `CmId::inner` | the state, the queue pair and the waiting events of an identifier | any, interrupts off | the work queue's |

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::{
    new_condvar, new_work,
    prelude::*,
    sync::{Arc, CondVar},
    workqueue::Work,
};
use kernel_ext::{
    error::ECONNABORTED,
    sleepable::{self, Sleepable},
    sync::{new_spinlock_irq, rcu, SpinLockIrq},
    work::GlobalQueue,
};
use rdma::{
    core::{
        iw::{
            event::{Event, EventArg, Kind},
            id::{Client, IdBody, Receiver},
            verbs::ConnQp,
        },
        Device,
    },
    embeds, MaySleep,
};

use crate::{
    backlog::{Backlog, Room},
    portmap::Mapping,
    states::{self, Action, Input, Outcome, State},
};

/// The queue of all identifiers, which runs one work item at a time.
pub(crate) static QUEUE: GlobalQueue = GlobalQueue::new();

/// The number of identifiers: while there are some, drivers may call into the module.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The events that a connection can have after its client has accepted the peer: it is there, the peer disconnects, it has ended.
pub(crate) const PASSIVE_EVENTS: usize = 3;
/// The events that a connection can have after its client has asked for it: the reply, and those of [`PASSIVE_EVENTS`].
pub(crate) const ACTIVE_EVENTS: usize = 4;

/// An identifier.
#[pin_data(PinnedDrop)]
pub(crate) struct CmId {
    pub(crate) body: IdBody,
    #[pin]
    inner: SpinLockIrq<Inner>,
    /// Who waits for the driver or the peer.
    #[pin]
    waiters: CondVar,
    #[pin]
    pub(super) work: Work<Sleepable<CmId>>,
}

/// What of an identifier changes.
struct Inner {
    state: State,
    /// That of the connection: from connecting or accepting on, until it has ended.
    qp: Option<ConnQp>,
    /// What the port mapper knows of it.
    mapping: Option<Mapping>,
    backlog: Backlog,
}

embeds! {
    // SAFETY: No other type of this module has an `IdBody`.
    unsafe impl Embeds for CmId { body: IdBody }
}

/// What an identifier has had when its client has given it up.
pub(crate) struct Remains {
    pub(crate) action: Action,
    pub(crate) qp: Option<ConnQp>,
    pub(crate) mapping: Option<Mapping>,
    pub(crate) backlog: Backlog,
}

impl CmId {
    /// An identifier in which nothing has been asked for.
    pub(crate) fn new(device: &Device, client: &Client) -> Result<Arc<Self>> {
        let body = IdBody::new::<Self>(device, client);
        Self::make(body, State::Idle, Backlog::new())
    }

    /// An identifier that stands for a peer that wants to connect to the listener `self`.
    pub(crate) fn for_request(&self, event: &Event) -> Result<Arc<Self>> {
        let mut backlog = Backlog::new();
        backlog.set_room(Room::new(PASSIVE_EVENTS)?);
        let body = self.body.for_request::<Self>(event.provider_data);
        Self::make(body, State::Requested, backlog)
    }

    fn make(body: IdBody, state: State, backlog: Backlog) -> Result<Arc<Self>> {
        let inner = Inner {
            state,
            qp: None,
            mapping: None,
            backlog,
        };
        COUNT.fetch_add(1, Ordering::Relaxed);
        let counted = Counted;
        let init = pin_init!(Self {
            body,
            inner <- new_spinlock_irq!(inner, "CmId::inner"),
            waiters <- new_condvar!("CmId::waiters"),
            work <- new_work!("CmId::work"),
        });
        let made = Arc::pin_init(init, GFP_KERNEL)?;
        // The identifier counts now.
        core::mem::forget(counted);
        Ok(made)
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.inner.lock().state
    }

    /// Begins what a client has asked for.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state in which it cannot be.
    pub(crate) fn begin(&self, input: Input, room: Option<Room>, qp: Option<ConnQp>) -> Result {
        let mut inner = self.inner.lock();
        let Outcome::To(state, _) = states::step(inner.state, input) else {
            // What was passed is dropped after the lock.
            drop(inner);
            return Err(EINVAL);
        };
        inner.state = state;
        let old_qp = core::mem::replace(&mut inner.qp, qp);
        let old_room = room.map(|room| inner.backlog.set_room(room));
        drop(inner);
        drop((old_qp, old_room));
        Ok(())
    }

    /// The state changes by what the driver has answered, or by an event. `None` if that means nothing in this state.
    pub(crate) fn advance(&self, input: Input) -> Option<Action> {
        let mut inner = self.inner.lock();
        let Outcome::To(state, action) = states::step(inner.state, input) else {
            return None;
        };
        inner.state = state;
        let released = match action {
            Action::Release | Action::ReleaseAndTell => inner.qp.take(),
            _ => None,
        };
        drop(inner);
        self.waiters.notify_all();
        drop(released);
        Some(action)
    }

    /// Changes the state when neither the driver nor the peer has the turn, and lets `f` take what it needs. Sleeps until then.
    ///
    /// # Errors
    ///
    /// `EINVAL` in a state in which it cannot be.
    fn advance_idle<R>(
        &self,
        input: Input,
        sleep: &MaySleep,
        f: impl FnOnce(&mut Inner, Action) -> R,
    ) -> Result<R> {
        sleep.check();
        let mut inner = self.inner.lock();
        loop {
            match states::step(inner.state, input) {
                Outcome::Wait => self.waiters.wait(&mut inner),
                Outcome::Refused => return Err(EINVAL),
                Outcome::To(state, action) => {
                    inner.state = state;
                    return Ok(f(&mut inner, action));
                }
            }
        }
    }

    /// The client disconnects. `f` is called with the queue pair, if it is to be modified.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a listener.
    pub(crate) fn disconnect(&self, sleep: &MaySleep, f: impl FnOnce(&ConnQp)) -> Result {
        // The connection may end meanwhile; the queue pair stays until it has been modified.
        let qp = self.advance_idle(Input::Disconnect, sleep, |inner, action| match action {
            Action::Disconnect => inner.qp.take(),
            _ => None,
        })?;
        let Some(qp) = qp else {
            return Ok(());
        };
        f(&qp);
        let mut inner = self.inner.lock();
        if inner.state == State::Closing && inner.qp.is_none() {
            inner.qp = Some(qp);
        } else {
            drop(inner);
            drop(qp);
        }
        Ok(())
    }

    /// The client gives the identifier up: no event is told any more, but one that is being told.
    pub(crate) fn end(&self, sleep: &MaySleep) -> Result<Remains> {
        self.advance_idle(Input::Destroy, sleep, |inner, action| Remains {
            action,
            qp: inner.qp.take(),
            mapping: inner.mapping.take(),
            backlog: core::mem::replace(&mut inner.backlog, Backlog::new()),
        })
    }

    /// Notes what the port mapper knows; returns what it has known before.
    pub(crate) fn set_mapping(&self, mapping: Mapping) -> Option<Mapping> {
        self.inner.lock().mapping.replace(mapping)
    }

    /// Takes the oldest event that waits, and queues the work for the next one.
    pub(super) fn next_event(self: &Arc<Self>) -> Option<Event> {
        let mut inner = self.inner.lock();
        let event = inner.backlog.pop();
        if !inner.backlog.is_empty() {
            self.queue();
        }
        event
    }

    fn queue(self: &Arc<Self>) {
        QUEUE.with(|queue| sleepable::enqueue(queue, self));
    }
}

impl Receiver for CmId {
    fn event(this: &Arc<Self>, event: &EventArg<'_>) -> Result {
        let event = event.to_event()?;
        let mut inner = this.inner.lock();
        if inner.state == State::Destroying {
            drop(inner);
            return match event.kind {
                Kind::ConnectRequest => Err(ECONNABORTED),
                _ => Ok(()),
            };
        }
        inner.backlog.push(event)?;
        // With the lock, so that none is queued after the state has changed.
        this.queue();
        Ok(())
    }
}

/// An identifier that counts.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

#[pinned_drop]
impl PinnedDrop for CmId {
    fn drop(self: Pin<&mut Self>) {
        drop(Counted);
    }
}

/// Waits until no identifier is left, and no driver is in a function of one. Called on module exit.
pub(crate) fn wait_for_all(sleep: &MaySleep) {
    const PAUSE_MS: u32 = 1;
    const PAUSES_PER_LINE: u32 = 10_000;
    let mut pauses = 0u32;
    while COUNT.load(Ordering::Acquire) != 0 {
        sleep.sleep_ms(PAUSE_MS);
        pauses = pauses.wrapping_add(1);
        if pauses % PAUSES_PER_LINE == 0 {
            pr_warn!("waiting for identifiers that a driver holds\n");
        }
    }
    // The last driver may not have returned from `rem_ref` yet.
    rcu::synchronize_tasks(sleep);
}
