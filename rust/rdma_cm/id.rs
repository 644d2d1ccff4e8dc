// SPDX-License-Identifier: GPL-2.0

//! Identifiers of the connection manager and their events: `struct rdma_cm_id`.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `State::events` | the pending events of an identifier | process, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    marker::PhantomData,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::to_result,
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    sync::Arc,
    time::{Instant, Monotonic},
};
use kernel_ext::{
    net::ns::NetNamespace,
    sync::{new_spinlock_irq, Completion, SpinLockIrq},
};
use rdma::{
    abi::qp::QpAttrMask,
    bindings::{self, ib_qp_attr, rdma_cm_event, rdma_cm_event_type, rdma_cm_id, rdma_conn_param},
    client::{
        qp::{Qp, Rc, State as QpStateType},
        Device, DropsAnywhere,
    },
    MaySleep,
};

use crate::Address;

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
    kind: rdma_cm_event_type,
    status: c_int,
    private_data: KVec<u8>,
    /// The new identifier of a connection request.
    raw: Option<RawId>,
}

impl PendingEvent {
    fn is_disconnect(&self) -> bool {
        self.kind == bindings::RDMA_CM_EVENT_DISCONNECTED
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
pub(crate) struct Id<'d> {
    raw: RawId,
    device: Device<'d>,
    _brand: PhantomData<fn(&'d ()) -> &'d ()>,
}

impl !DropsAnywhere for Id<'_> {}

/// An awaited event.
pub(crate) struct Event<'d> {
    pub(crate) private_data: KVec<u8>,
    pub(crate) id: Option<Id<'d>>,
}

impl Event<'_> {
    fn without_data() -> Self {
        Self {
            private_data: KVec::new(),
            id: None,
        }
    }
}

impl<'d> Id<'d> {
    pub(crate) fn new(device: &Device<'d>, net: &NetNamespace, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        let state = State::new()?;
        let context = Arc::as_ptr(&state).cast_mut().cast();
        // SAFETY: The state is valid until the identifier is destroyed. The identifier holds a reference to the namespace; the
        // name is constant.
        let raw = unsafe {
            bindings::__rdma_create_kernel_id(
                net.as_raw(),
                Some(event_handler),
                context,
                bindings::RDMA_PS_TCP,
                bindings::IB_QPT_RC,
                device.owner().as_char_ptr(),
            )
        };
        let raw = NonNull::new(kernel::error::from_err_ptr(raw)?).ok_or(ENOMEM)?;
        // INVARIANT: The identifier was just created.
        Ok(Self::of(RawId { raw, state }, device))
    }

    fn of(raw: RawId, device: &Device<'d>) -> Self {
        Self {
            raw,
            device: device.clone(),
            _brand: PhantomData,
        }
    }

    fn as_raw(&self) -> *mut rdma_cm_id {
        self.raw.raw.as_ptr()
    }

    /// Fails if the identifier is not bound to the device.
    pub(crate) fn check_device(&self) -> Result {
        // SAFETY: The identifier is valid, and its device is constant after it is bound.
        match unsafe { (*self.as_raw()).device } == self.device.as_raw() {
            true => Ok(()),
            false => Err(ENODEV),
        }
    }

    pub(crate) fn bind(&self, address: &Address) -> Result {
        let mut address = address.to_raw();
        // SAFETY: Both are valid during the call.
        to_result(unsafe { bindings::rdma_bind_addr(self.as_raw(), (&raw mut address).cast()) })
    }

    pub(crate) fn listen(&self, backlog: u16) -> Result {
        // SAFETY: By the type invariants the identifier is valid.
        to_result(unsafe { bindings::rdma_listen(self.as_raw(), backlog.into()) })
    }

    /// The port that the identifier is bound to.
    pub(crate) fn source_port(&self) -> u16 {
        // SAFETY: The identifier is valid; the port has the same offset in addresses of either family.
        let port = unsafe {
            let address = &raw const (*self.as_raw()).route.addr.src_addr;
            (&raw const (*address.cast::<bindings::sockaddr_in>()).sin_port).read()
        };
        u16::from_be(port)
    }

    pub(crate) fn resolve_address(
        &self,
        source: Option<&Address>,
        destination: &Address,
        timeout_ms: u32,
    ) -> Result {
        let mut source = source.map(|source| source.to_raw());
        let source = source.as_mut().map_or(null_mut(), |raw| &raw mut *raw);
        let destination = destination.to_raw();
        // SAFETY: All are valid during the call, which copies the addresses.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.as_raw(),
                source.cast(),
                (&raw const destination).cast(),
                timeout_ms as c_ulong,
            )
        })
    }

    pub(crate) fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: By the type invariants the identifier is valid.
        to_result(unsafe { bindings::rdma_resolve_route(self.as_raw(), timeout_ms as c_ulong) })
    }

    pub(crate) fn connect(&self, mut params: rdma_conn_param) -> Result {
        // SAFETY: The identifier is valid; the parameters are copied.
        to_result(unsafe { bindings::rdma_connect(self.as_raw(), &mut params) })
    }

    /// Accepts a connection request, or the reply of a peer.
    pub(crate) fn accept(&self, params: Option<rdma_conn_param>) -> Result {
        let mut params = params;
        let params = params
            .as_mut()
            .map_or(null_mut(), |params| &raw mut *params);
        // SAFETY: The identifier is valid; the parameters are copied. The function requires the handler lock, which is held.
        to_result(unsafe {
            bindings::rdma_lock_handler(self.as_raw());
            let ret = bindings::rdma_accept(self.as_raw(), params);
            bindings::rdma_unlock_handler(self.as_raw());
            ret
        })
    }

    pub(crate) fn reject(&self, why: &[u8]) -> Result {
        let length = u8::try_from(why.len()).map_err(|_| EINVAL)?;
        let reason = bindings::IB_CM_REJ_CONSUMER_DEFINED as u8;
        // SAFETY: The identifier is valid; the bytes are copied.
        to_result(unsafe {
            bindings::rdma_reject(self.as_raw(), why.as_ptr().cast(), length, reason)
        })
    }

    pub(crate) fn disconnect(&self) -> Result {
        // SAFETY: By the type invariants the identifier is valid.
        to_result(unsafe { bindings::rdma_disconnect(self.as_raw()) })
    }

    /// Changes the state of a queue pair with the attributes of the connection manager.
    pub(crate) fn modify<S: QpStateType, N: QpStateType>(
        &self,
        qp: Qp<'d, Rc, S>,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, Rc, N>> {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = N::STATE.as_raw();
        let mut mask = 0;
        // SAFETY: The identifier is valid; both results are valid for writes.
        to_result(unsafe { bindings::rdma_init_qp_attr(self.as_raw(), &mut attr, &mut mask) })?;
        // SAFETY: The connection manager has filled in the attributes in the mask.
        Ok(unsafe { qp.become_raw(&mut attr, QpAttrMask::from_bits(mask as u32), sleep) }?)
    }

    /// Waits for an event, at most `timeout_ms` milliseconds. Other events are ignored unless they are failures.
    ///
    /// The RTU of a peer may be lost. So a DREQ counts as `RDMA_CM_EVENT_ESTABLISHED` too, and stays pending.
    pub(crate) fn expect(
        &self,
        kind: rdma_cm_event_type,
        timeout_ms: u32,
        sleep: &MaySleep,
    ) -> Result<Event<'d>> {
        let begin = Instant::<Monotonic>::now();
        loop {
            let waited = u32::try_from(begin.elapsed().as_millis()).unwrap_or(u32::MAX);
            let left = timeout_ms.saturating_sub(waited);
            if !self.raw.state.arrived.wait_timeout(left, sleep) {
                return Err(ETIMEDOUT);
            }
            if kind == bindings::RDMA_CM_EVENT_ESTABLISHED && self.raw.state.is_ended() {
                return Ok(Event::without_data());
            }
            let Some(event) = self.raw.state.pop() else {
                continue;
            };
            if event.kind == kind && event.status == 0 {
                return Ok(Event {
                    private_data: event.private_data,
                    id: event.raw.map(|raw| Self::of(raw, &self.device)),
                });
            }
            let is_removed = kind == bindings::RDMA_CM_EVENT_DISCONNECTED
                && event.kind == bindings::RDMA_CM_EVENT_DEVICE_REMOVAL;
            if is_removed {
                return Ok(Event::without_data());
            }
            if let Some(error) = failure(&event) {
                return Err(error);
            }
        }
    }
}

/// The error for an event that is not the awaited one; `None` if it is ignored.
fn failure(event: &PendingEvent) -> Option<Error> {
    let refused = Error::from_errno(-(bindings::ECONNREFUSED as c_int));
    match event.kind {
        bindings::RDMA_CM_EVENT_REJECTED => Some(refused),
        bindings::RDMA_CM_EVENT_ADDR_ERROR
        | bindings::RDMA_CM_EVENT_ROUTE_ERROR
        | bindings::RDMA_CM_EVENT_CONNECT_ERROR
        | bindings::RDMA_CM_EVENT_UNREACHABLE => {
            Some(to_result(event.status).err().unwrap_or(ETIMEDOUT))
        }
        bindings::RDMA_CM_EVENT_DISCONNECTED | bindings::RDMA_CM_EVENT_DEVICE_REMOVAL => {
            Some(refused)
        }
        _ => None,
    }
}

/// The private data of a connection event.
///
/// # Safety
///
/// The event is a valid event of the connection manager.
unsafe fn private_data(event: &rdma_cm_event) -> Result<KVec<u8>> {
    let mut bytes = KVec::new();
    let has_some = matches!(
        event.event,
        bindings::RDMA_CM_EVENT_CONNECT_REQUEST
            | bindings::RDMA_CM_EVENT_CONNECT_RESPONSE
            | bindings::RDMA_CM_EVENT_REJECTED
    );
    // SAFETY: The type of the event selects the member of the union, and by the safety requirements its private data has this
    // length.
    let (from, length) = unsafe {
        let conn = &event.param.conn;
        (
            conn.private_data.cast::<u8>(),
            usize::from(conn.private_data_len),
        )
    };
    if has_some && !from.is_null() && length != 0 {
        // SAFETY: By the safety requirements the private data is valid for reads of `length` bytes.
        let data = unsafe { core::slice::from_raw_parts(from, length) };
        bytes.extend_from_slice(data, GFP_KERNEL)?;
    }
    Ok(bytes)
}

/// The C entry point of events of an identifier. If it fails for a connection request, the connection manager destroys the new
/// identifier.
///
/// # Safety
///
/// The connection manager calls it in process context with an event and an identifier, whose context is a [`State`]. A connection
/// request has a new identifier with the context of the listener.
unsafe extern "C" fn event_handler(id: *mut rdma_cm_id, event: *mut rdma_cm_event) -> c_int {
    // SAFETY: By the safety requirements.
    let outcome = unsafe {
        let state = &*(*id).context.cast::<State>();
        store_event(state, id, &*event)
    };
    outcome.map_or_else(Error::to_errno, |()| 0)
}

/// Stores an event.
///
/// # Safety
///
/// As for [`event_handler`].
unsafe fn store_event(state: &State, id: *mut rdma_cm_id, event: &rdma_cm_event) -> Result {
    let is_request = event.event == bindings::RDMA_CM_EVENT_CONNECT_REQUEST;
    // An error for other events would destroy an identifier that its owner destroys too.
    // SAFETY: By the safety requirements.
    let private_data = match unsafe { private_data(event) } {
        Err(error) if is_request => return Err(error),
        bytes => bytes.unwrap_or_default(),
    };
    let mut pending = PendingEvent {
        kind: event.event,
        status: event.status,
        private_data,
        raw: None,
    };
    if !is_request {
        if state.push(pending).is_err() {
            pr_warn!("an event was lost\n");
        }
        return Ok(());
    }
    let own = State::new()?;
    let raw = NonNull::new(id).ok_or(EINVAL)?;
    // The capacity is reserved first, so that nothing fails after the identifier is taken over.
    let mut events = state.events.lock();
    events.reserve(1, GFP_ATOMIC)?;
    // SAFETY: By the safety requirements; only this thread uses the new identifier.
    unsafe { (*id).context = Arc::as_ptr(&own).cast_mut().cast::<c_void>() };
    // INVARIANT: The listener owns the identifier from now on.
    pending.raw = Some(RawId { raw, state: own });
    if let Err(lost) = events.push_within_capacity(pending) {
        // The connection manager destroys the identifier, so it must not be dropped here.
        core::mem::forget(lost);
        return Err(ENOMEM);
    }
    drop(events);
    state.arrived.complete();
    Ok(())
}
