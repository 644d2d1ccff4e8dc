// SPDX-License-Identifier: GPL-2.0

//! Identifiers of the connection manager and their events: `struct rdma_cm_id`.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `State::events` | the pending events of an identifier | process, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
    time::{Instant, Monotonic},
};
use kernel_ext::{
    net::ns::NetNamespace,
    sync::{new_spinlock_irq, Completion, SpinLockIrq},
};
use rdma::{
    bindings::{self, rdma_cm_event, rdma_cm_id},
    client::{Device, DropsAnywhere},
    MaySleep,
};

use crate::{
    calls::{self, Calls},
    event::Event,
    space::{PortSpace, Tcp},
    Address, Options,
};

/// The pending events of an identifier.
#[pin_data]
struct State {
    #[pin]
    events: SpinLockIrq<KVec<PendingEvent>>,
    #[pin]
    arrived: Completion,
}

impl State {
    fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            events <- new_spinlock_irq!(KVec::new(), "State::events"),
            arrived <- Completion::new(),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    fn push(&self, event: PendingEvent) -> Result {
        self.events.lock().push(event, GFP_ATOMIC)?;
        self.arrived.complete();
        Ok(())
    }

    fn pop(&self) -> Option<PendingEvent> {
        self.events.lock().remove(0).ok()
    }

    /// Whether the next event is a disconnect. It stays pending.
    fn is_ended(&self) -> bool {
        let is_ended = self
            .events
            .lock()
            .first()
            .is_some_and(PendingEvent::is_disconnect);
        if is_ended {
            self.arrived.complete();
        }
        is_ended
    }
}

/// An event that no caller has taken yet.
struct PendingEvent {
    event: Event,
    /// The new identifier of a request.
    raw: Option<RawId>,
}

impl PendingEvent {
    fn is_disconnect(&self) -> bool {
        matches!(self.event, Event::Disconnected)
    }
}

/// An identifier. Dropping it destroys the identifier.
///
/// # Invariants
///
/// `self` owns the identifier, whose context is `state`.
struct RawId {
    raw: NonNull<rdma_cm_id>,
    state: Arc<State>,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl Send for RawId {}
// SAFETY: Identifiers may be used from any thread.
unsafe impl Sync for RawId {}

impl Drop for RawId {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the identifier. No handler runs when the function returns.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
    }
}

/// An identifier of a client's device. Dropping it may sleep.
pub(crate) struct Id<'d, K> {
    raw: RawId,
    device: Device<'d>,
    _brand: PhantomData<fn(&'d (), K) -> &'d ()>,
}

impl<K> !DropsAnywhere for Id<'_, K> {}

impl<'d, K: PortSpace> Deref for Id<'d, K> {
    type Target = Calls<'d, K>;

    fn deref(&self) -> &Calls<'d, K> {
        // SAFETY: By the type invariants of `RawId` the identifier is valid. It was created with this port space, or by a
        // request to a listener of it.
        unsafe { Calls::from_raw(self.raw.raw) }
    }
}

/// What an identifier has for who waits for an event.
pub(crate) type Taken<'d, K, T> = (T, Option<Id<'d, K>>);

impl<'d, K: PortSpace> Id<'d, K> {
    pub(crate) fn new(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        let state = State::new()?;
        let context = Arc::as_ptr(&state).cast_mut().cast();
        let (owner, handler) = (device.owner(), event_handler);
        // SAFETY: The state is valid until the identifier is destroyed.
        let raw = unsafe { calls::create::<K>(owner, net, options, handler, context) }?;
        // INVARIANT: The identifier was just created.
        let raw = RawId { raw, state };
        Ok(Self::of(raw, device))
    }

    fn of(raw: RawId, device: &Device<'d>) -> Self {
        Self {
            raw,
            device: device.clone(),
            _brand: PhantomData,
        }
    }

    /// An identifier that is bound to an address of the device.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, and those of the connection manager.
    pub(crate) fn bound(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        address: &Address,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(device, net, options, sleep)?;
        id.bind(address)?;
        id.check_device(device)?;
        Ok(id)
    }

    /// As [`Self::bound`], and it listens with a backlog.
    pub(crate) fn listening(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, backlog): (&Address, u16),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::bound(device, net, options, address, sleep)?;
        id.listen(backlog)?;
        Ok(id)
    }

    /// Resolves an address and the route to it, which begins at the device.
    pub(crate) fn resolve(
        &self,
        (source, destination): (Option<&Address>, &Address),
        timeout_ms: u32,
        sleep: &MaySleep,
    ) -> Result {
        self.resolve_address(source, destination, timeout_ms)?;
        self.expect(timeout_ms, sleep, |event| match event {
            Event::AddrResolved => Ok(()),
            other => Err(other),
        })?;
        self.check_device(&self.device)?;
        self.resolve_route(timeout_ms)?;
        self.expect(timeout_ms, sleep, |event| match event {
            Event::RouteResolved => Ok(()),
            other => Err(other),
        })?;
        Ok(())
    }

    /// Waits for the next event, at most `timeout_ms` milliseconds.
    pub(crate) fn next(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Taken<'d, K, Event>> {
        let begin = Instant::<Monotonic>::now();
        loop {
            let waited = u32::try_from(begin.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = timeout_ms.saturating_sub(waited);
            if !self.raw.state.arrived.wait_timeout(left, sleep) {
                return Err(ETIMEDOUT);
            }
            if let Some(PendingEvent { event, raw }) = self.raw.state.pop() {
                return Ok((event, raw.map(|raw| Self::of(raw, &self.device))));
            }
        }
    }

    /// Waits for an event that `take` takes, at most `timeout_ms` milliseconds. Other events are ignored unless they are failures.
    pub(crate) fn expect<T>(
        &self,
        timeout_ms: u32,
        sleep: &MaySleep,
        take: impl Fn(Event) -> Result<T, Event>,
    ) -> Result<Taken<'d, K, T>> {
        let begin = Instant::<Monotonic>::now();
        loop {
            let waited = u32::try_from(begin.elapsed().as_millis()).unwrap_or(u32::MAX);
            let (event, id) = self.next(timeout_ms.saturating_sub(waited), sleep)?;
            match take(event) {
                Ok(taken) => return Ok((taken, id)),
                Err(other) => other.failure().map_or(Ok(()), Err)?,
            }
        }
    }
}

impl Id<'_, Tcp> {
    /// Waits for a connection. The RTU of a peer may be lost: so a DREQ counts too, and stays pending.
    pub(crate) fn expect_established(&self, timeout_ms: u32, sleep: &MaySleep) -> Result {
        let begin = Instant::<Monotonic>::now();
        loop {
            let waited = u32::try_from(begin.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = timeout_ms.saturating_sub(waited);
            if !self.raw.state.arrived.wait_timeout(left, sleep) {
                return Err(ETIMEDOUT);
            }
            if self.raw.state.is_ended() {
                return Ok(());
            }
            match self.raw.state.pop().map(|pending| pending.event) {
                Some(Event::Established(_)) => return Ok(()),
                Some(other) => other.failure().map_or(Ok(()), Err)?,
                None => {}
            }
        }
    }
}

/// The C entry point of events of an identifier. If it fails for a request, the connection manager destroys the new identifier.
///
/// # Safety
///
/// The connection manager calls it in process context with an event and an identifier, whose context is a [`State`]. A request has a
/// new identifier with the context of the listener.
unsafe extern "C" fn event_handler(id: *mut rdma_cm_id, event: *mut rdma_cm_event) -> c_int {
    // SAFETY: By the safety requirements.
    let outcome = unsafe {
        let state = &*(*id).context.cast::<State>();
        store_event(state, id, &*event)
    };
    outcome.map_or_else(Error::to_errno, |()| 0)
}

/// Stores an event. It fails for requests alone: a failure for another event would destroy an identifier that has an owner.
///
/// # Safety
///
/// As for [`event_handler`].
unsafe fn store_event(state: &State, id: *mut rdma_cm_id, raw: &rdma_cm_event) -> Result {
    let is_request = raw.event == bindings::RDMA_CM_EVENT_CONNECT_REQUEST;
    // SAFETY: By the safety requirements; the type of an identifier is constant.
    let event = unsafe { Event::from_raw(raw, (*id).qp_type) };
    match event {
        Ok(Some(event)) if is_request => {
            // SAFETY: By the safety requirements.
            return unsafe { store_request(state, id, event) };
        }
        Err(error) if is_request => return Err(error),
        Ok(Some(event)) => {
            if state.push(PendingEvent { event, raw: None }).is_err() {
                pr_warn!("an event was lost\n");
            }
        }
        Ok(None) | Err(_) => pr_warn!("event {} was lost\n", raw.event),
    }
    Ok(())
}

/// Stores a request with its new identifier, which it takes over if it succeeds.
///
/// # Safety
///
/// As for [`event_handler`], with a request.
unsafe fn store_request(state: &State, id: *mut rdma_cm_id, event: Event) -> Result {
    let own = State::new()?;
    let raw = NonNull::new(id).ok_or(EINVAL)?;
    // The capacity is reserved first, so that nothing fails after the identifier is taken over.
    let mut events = state.events.lock();
    events.reserve(1, GFP_ATOMIC)?;
    // SAFETY: By the safety requirements; only this thread uses the new identifier.
    unsafe { (*id).context = Arc::as_ptr(&own).cast_mut().cast::<c_void>() };
    // INVARIANT: The listener owns the identifier from now on.
    let raw = Some(RawId { raw, state: own });
    if let Err(lost) = events.push_within_capacity(PendingEvent { event, raw }) {
        // The connection manager destroys the identifier, so it must not be dropped here.
        core::mem::forget(lost);
        return Err(ENOMEM);
    }
    drop(events);
    state.arrived.complete();
    Ok(())
}
