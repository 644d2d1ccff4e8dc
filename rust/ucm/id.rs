// SPDX-License-Identifier: GPL-2.0

//! An identifier: `struct rdma_cm_id`, from its creation to its end.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Inner::calls` | one call of a program at a time for an identifier | process context | the handler lock, what the connection manager takes |
//! | `Inner::is_destroyed` | whether the identifier is destroyed; held while it is being destroyed | process context | what the connection manager takes |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    ptr::{null_mut, NonNull},
};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::{c_int, c_ulong},
    impl_has_work, new_work,
    prelude::*,
    sync::{lock::mutex::MutexBackend, lock::Guard, Arc, ArcBorrow, Mutex},
    workqueue::Work,
};
use kernel_ext::{
    sleepable::{self, Sleepable, SleepableWork},
    sync::new_mutex,
    uses::{self, Uses},
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    abi::qp::QpState,
    bindings::{self, ib_qp_attr, rdma_cm_event, rdma_cm_id, sa_path_rec},
    MaySleep,
};

use crate::{
    event::Event,
    live::{Live, Quiet},
    params::{ConnParam, Ece, IbService, Setting},
    query::{Answer, Route, PATH_RECORD},
    SocketAddress,
};

/// Where identifiers are destroyed by whoever must not sleep.
static CLOSING: GlobalQueue = GlobalQueue::new();

/// Starts the queue for identifiers that are destroyed later. Dropping the result, when no identifier is left, waits for all of them.
///
/// # Errors
///
/// `ENOMEM`.
pub fn closing_queue(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"rdma_ucm", QueueFlags::UNBOUND, 0, sleep)?;
    Ok(CLOSING.install(queue))
}

/// What handles the events of an identifier. The handlers of one identifier run one at a time, in process context. They must not wait
/// for calls of the identifier, which may wait for them.
pub trait Handler: Send + Sync + Sized + 'static {
    /// An event, other than a request for a connection.
    fn event(this: ArcBorrow<'_, Self>, event: &Event<'_>);

    /// A request for a connection, of an identifier that listens. It is refused unless it is adopted.
    fn request(this: ArcBorrow<'_, Self>, request: Request<'_>);
}

/// The C identifier, and what is around it.
///
/// # Invariants
///
/// `raw` is valid until `is_destroyed` is set, and its context is `handler`. It is destroyed when the teardown of `uses` has ended.
#[pin_data]
struct Inner<H: Handler> {
    raw: NonNull<rdma_cm_id>,
    handler: Arc<H>,
    #[pin]
    uses: Uses,
    #[pin]
    calls: Mutex<()>,
    #[pin]
    is_destroyed: Mutex<bool>,
    #[pin]
    work: Work<Sleepable<Self>>,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl<H: Handler> Send for Inner<H> {}
// SAFETY: Identifiers may be used from any thread.
unsafe impl<H: Handler> Sync for Inner<H> {}

impl_has_work! {
    impl{H: Handler} HasWork<Sleepable<Self>> for Inner<H> { self.work }
}

impl<H: Handler> SleepableWork for Inner<H> {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        this.close(sleep);
    }
}

impl<H: Handler> Inner<H> {
    /// Destroys the identifier, unless that was done. Returns when it is destroyed.
    fn close(&self, sleep: &MaySleep) {
        let mut is_destroyed = self.is_destroyed.lock();
        if *is_destroyed {
            return;
        }
        self.uses.end(sleep);
        // SAFETY: By the type invariants the identifier is valid, and its uses have ended. This is no handler of it: those have no
        // token. No handler runs when the function returns.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
        *is_destroyed = true;
    }

    fn close_later(this: &Arc<Self>) {
        let queued = CLOSING.with(|queue| sleepable::enqueue(queue, this));
        if queued.is_none() {
            // It is kept, with its handler, rather than destroyed where that may deadlock.
            pr_err!("an identifier is left\n");
            core::mem::forget(this.clone());
        }
    }
}

/// An identifier of a program. Dropping it destroys the identifier, in a work item, if it was not closed before: so it may be dropped
/// anywhere, also in handlers.
pub struct Id<H: Handler>(Arc<Inner<H>>);

impl<H: Handler> Drop for Id<H> {
    fn drop(&mut self) {
        // Whoever has the lock is destroying it.
        let is_left = self
            .0
            .is_destroyed
            .try_lock()
            .is_some_and(|is_destroyed| !*is_destroyed);
        if is_left {
            Inner::close_later(&self.0);
        }
    }
}

impl<H: Handler> Id<H> {
    fn new(
        handler: Arc<H>,
        raw: impl FnOnce(*mut c_void) -> Result<NonNull<rdma_cm_id>>,
    ) -> Result<Self> {
        let context = Arc::as_ptr(&handler).cast_mut().cast();
        let init = try_pin_init!(Inner {
            handler,
            uses <- Uses::new(),
            calls <- new_mutex!((), "Inner::calls"),
            is_destroyed <- new_mutex!(false, "Inner::is_destroyed"),
            work <- new_work!("Inner::work"),
            // Nothing fails after this.
            // INVARIANT: The identifier is new, with this context.
            raw: raw(context)?,
        }? Error);
        Ok(Self(Arc::pin_init(init, GFP_KERNEL)?))
    }

    /// Creates an identifier in the network namespace of the current process. `space` is one of `enum rdma_ucm_port_space`, `qp_type`
    /// one of `enum ib_qp_type`; no value is unsafe.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the connection manager.
    pub fn create(handler: Arc<H>, space: u16, qp_type: u32, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        Self::new(handler, |context| {
            // SAFETY: The context is valid until the identifier is destroyed, since `Inner` has a reference to it.
            let raw = unsafe {
                bindings::rdma_create_user_id(
                    Some(event_handler::<H>),
                    context,
                    space.into(),
                    qp_type,
                )
            };
            NonNull::new(from_err_ptr(raw)?).ok_or(ENOMEM)
        })
    }

    /// Uses the identifier; `None` if it is being closed. Closing it waits until the result is dropped.
    pub fn enter(&self) -> Option<Entered<'_>> {
        let used = self.0.uses.enter()?;
        // SAFETY: By the type invariants the identifier is not destroyed before the use ends, with the result.
        let live = unsafe { Live::new(self.0.raw) };
        Some(Entered {
            live,
            calls: &self.0.calls,
            _used: used,
        })
    }

    /// Destroys the identifier, and waits for its calls and its handlers. Whoever is in a call of it would wait for itself.
    pub fn close(&self, sleep: &MaySleep) {
        self.0.close(sleep);
    }

    /// Lets a work item destroy the identifier: for handlers.
    pub fn close_later(&self) {
        Inner::close_later(&self.0);
    }
}

/// A request for a connection, with the new identifier that it has come with.
///
/// # Invariants
///
/// The identifier is lent to the handler until it returns: nobody else uses it.
pub struct Request<'a> {
    event: Event<'a>,
    raw: NonNull<rdma_cm_id>,
    is_adopted: &'a mut bool,
}

impl<'a> Request<'a> {
    /// The event, as the one who listens sees it.
    pub fn event(&self) -> &Event<'a> {
        &self.event
    }

    /// Takes over the new identifier, whose events `handler` gets from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the request is refused.
    pub fn adopt<H: Handler>(self, handler: Arc<H>) -> Result<Id<H>> {
        let Self {
            raw, is_adopted, ..
        } = self;
        Id::new(handler, |context| {
            // SAFETY: By the type invariants. The context is valid until the identifier is destroyed, and the handler is that of its
            // type.
            unsafe {
                (*raw.as_ptr()).context = context;
                (*raw.as_ptr()).event_handler = Some(event_handler::<H>);
            }
            *is_adopted = true;
            Ok(raw)
        })
    }
}

/// The C entry point of events. What it returns for a request that is not adopted lets the connection manager destroy the new
/// identifier.
///
/// # Safety
///
/// The connection manager calls it in process context with an event and an identifier, whose context is the `H` of an [`Id<H>`] that
/// is not destroyed; that of a request's new identifier is the one of the identifier that listens.
unsafe extern "C" fn event_handler<H: Handler>(
    id: *mut rdma_cm_id,
    event: *mut rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements; the context is from `Arc::as_ptr`, and the reference lives longer than the identifier.
    let (handler, raw, event) = unsafe {
        (
            ManuallyDrop::new(Arc::from_raw((*id).context.cast::<H>().cast_const())),
            NonNull::new_unchecked(id),
            Event::new(NonNull::new_unchecked(id), &*event),
        )
    };
    if event.kind() != bindings::RDMA_CM_EVENT_CONNECT_REQUEST {
        H::event(handler.as_arc_borrow(), &event);
        return 0;
    }
    let mut is_adopted = false;
    // INVARIANT: The connection manager has made the identifier for the request.
    let request = Request {
        event,
        raw,
        is_adopted: &mut is_adopted,
    };
    H::request(handler.as_arc_borrow(), request);
    match is_adopted {
        true => 0,
        false => ENOMEM.to_errno(),
    }
}

/// A use of an identifier.
pub struct Entered<'a> {
    live: Live<'a>,
    calls: &'a Mutex<()>,
    _used: uses::Entered<'a>,
}

impl Entered<'_> {
    /// Waits for other calls of the identifier.
    pub fn lock(&self, _sleep: &MaySleep) -> Calls<'_> {
        Calls {
            live: self.live,
            _lock: self.calls.lock(),
        }
    }

    /// Waits for its handlers, and lets none run until the result is dropped.
    pub fn quiet(&self, sleep: &MaySleep) -> Quiet<'_> {
        self.live.quiet(sleep)
    }
}

/// The calls of an identifier, one at a time.
///
/// Calls that may be made only once an identifier has a device fail with `EINVAL` before, and all of them with the errors of the
/// connection manager.
pub struct Calls<'a> {
    live: Live<'a>,
    _lock: Guard<'a, (), MutexBackend>,
}

impl Calls<'_> {
    fn raw(&self) -> *mut rdma_cm_id {
        self.live.raw()
    }

    /// Whether the identifier has a device.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it has none.
    pub fn check_device(&self) -> Result {
        self.live.bound().map(drop)
    }

    /// Binds to an address.
    pub fn bind(&self, mut address: SocketAddress) -> Result {
        // SAFETY: The identifier is valid; the address has room for any family.
        to_result(unsafe { bindings::rdma_bind_addr(self.raw(), address.as_raw()) })
    }

    /// Resolves an address. A source of the family 0 is none.
    pub fn resolve_addr(
        &self,
        mut source: SocketAddress,
        mut destination: SocketAddress,
        timeout_ms: u32,
    ) -> Result {
        // SAFETY: The identifier is valid; the addresses have room for any family.
        to_result(unsafe {
            bindings::rdma_resolve_addr(
                self.raw(),
                source.as_raw(),
                destination.as_raw(),
                timeout_ms as c_ulong,
            )
        })
    }

    /// Resolves the route to the destination.
    pub fn resolve_route(&self, timeout_ms: u32) -> Result {
        let raw = self.live.bound()?;
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_resolve_route(raw, timeout_ms as c_ulong) })
    }

    /// Looks a service of the fabric up.
    pub fn resolve_ib_service(&self, service: IbService) -> Result {
        let mut service = service.to_raw();
        // SAFETY: The identifier is valid; the service is copied.
        to_result(unsafe { bindings::rdma_resolve_ib_service(self.raw(), &mut service) })
    }

    /// Whether the connection has a Q_Key of the program.
    fn has_qkey(&self) -> bool {
        // SAFETY: `self` has the lock of calls.
        let route = unsafe { Route::new(self.live) };
        route.source().family() == bindings::AF_IB as u16
    }

    /// Asks the peer for a connection.
    pub fn connect(&self, param: &ConnParam, ece: Ece) -> Result {
        let raw = self.live.bound()?;
        let (mut param, mut ece) = (param.to_raw(self.has_qkey()), ece.to_raw());
        // SAFETY: The identifier is valid; the parameters are valid during the call, which copies them.
        to_result(unsafe { bindings::rdma_connect_ece(raw, &mut param, &mut ece) })
    }

    /// Listens for requests.
    pub fn listen(&self, backlog: u32) -> Result {
        let backlog = c_int::try_from(backlog).unwrap_or(c_int::MAX);
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_listen(self.raw(), backlog) })
    }

    /// Answers a request, or the reply of a peer; without parameters the connection manager takes what the peer has asked for.
    /// `accepted` runs after success, before any handler.
    pub fn accept(
        &self,
        param: Option<&ConnParam>,
        ece: Ece,
        accepted: impl FnOnce(),
        sleep: &MaySleep,
    ) -> Result {
        let raw = self.live.bound()?;
        let mut param = param.map(|param| param.to_raw(self.has_qkey()));
        let param = param.as_mut().map_or(null_mut(), |param| &raw mut *param);
        let mut ece = ece.to_raw();
        let _quiet = self.live.quiet(sleep);
        // SAFETY: The identifier is valid, and its handler lock is held; the parameters are valid during the call.
        to_result(unsafe { bindings::rdma_accept_ece(raw, param, &mut ece) })?;
        accepted();
        Ok(())
    }

    /// Refuses a request, with a reason of `enum ib_cm_rej_reason`.
    pub fn reject(&self, why: &[u8], reason: u8) -> Result {
        let raw = self.live.bound()?;
        let length = u8::try_from(why.len()).map_err(|_| EINVAL)?;
        // SAFETY: The identifier is valid; the bytes are valid during the call.
        to_result(unsafe { bindings::rdma_reject(raw, why.as_ptr().cast(), length, reason) })
    }

    /// Ends the connection, or confirms its end.
    pub fn disconnect(&self) -> Result {
        let raw = self.live.bound()?;
        // SAFETY: The identifier is valid.
        to_result(unsafe { bindings::rdma_disconnect(raw) })
    }

    /// Tells the connection manager of an asynchronous event of the queue pair, `enum ib_event_type`.
    pub fn notify(&self, event: u32) -> Result {
        let raw = self.live.bound()?;
        // SAFETY: The identifier is valid, and has a device. Events that there are not are refused.
        to_result(unsafe { bindings::rdma_notify(raw, event) })
    }

    /// The attributes with which a queue pair goes to a state: `struct ib_uverbs_qp_attr`.
    pub fn qp_attr(&self, state: QpState) -> Result<Answer<bindings::ib_uverbs_qp_attr>> {
        let raw = self.live.bound()?;
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state.as_raw();
        let mut mask = 0;
        // SAFETY: The identifier is valid, and has a device; both results are valid for writes.
        to_result(unsafe { bindings::rdma_init_qp_attr(raw, &mut attr, &mut mask) })?;
        Ok(Answer::of_qp_attr(
            self.live.device(),
            mask as u32,
            &mut attr,
        ))
    }

    /// Sets an option.
    pub fn set(&self, setting: Setting) -> Result {
        let raw = self.raw();
        // SAFETY: The identifier is valid.
        to_result(unsafe {
            match setting {
                Setting::Tos(tos) => {
                    bindings::rdma_set_service_type(raw, tos.into());
                    0
                }
                Setting::ReuseAddr(on) => bindings::rdma_set_reuseaddr(raw, on.into()),
                Setting::AfOnly(on) => bindings::rdma_set_afonly(raw, on.into()),
                Setting::AckTimeout(timeout) => bindings::rdma_set_ack_timeout(raw, timeout),
            }
        })
    }

    /// Sets the route, as a path record of the fabric.
    pub fn set_path(&self, record: &[u8; PATH_RECORD]) -> Result {
        let raw = self.live.bound()?;
        let mut record = *record;
        let mut path: sa_path_rec = pin_init::zeroed();
        let port = self.live.port();
        let caps = self
            .live
            .device()
            .map_or(0, |device| device.port_caps(port));
        let is_opa = caps & bindings::RDMA_CORE_CAP_OPA_AH != 0;
        // SAFETY: The identifier is valid, and has a device; the record has the size of one; the path is copied.
        to_result(unsafe {
            bindings::sa_path_unpack(record.as_mut_ptr().cast(), is_opa, &mut path);
            bindings::rdma_set_ib_path(raw, &mut path)
        })
    }

    /// Joins a multicast group. Its events have the `token`.
    pub fn join(&self, mut address: SocketAddress, join_state: u8, token: u32) -> Result {
        let raw = self.live.bound()?;
        let context = core::ptr::without_provenance_mut(token as usize);
        // SAFETY: The identifier is valid; the address has room for any family, and is copied. The context is no pointer for anybody.
        to_result(unsafe {
            bindings::rdma_join_multicast(raw, address.as_raw(), join_state, context)
        })
    }

    /// Leaves the group that was joined last at an address.
    pub fn leave(&self, mut address: SocketAddress) {
        // SAFETY: The identifier is valid; the address has room for any family.
        unsafe { bindings::rdma_leave_multicast(self.raw(), address.as_raw()) };
    }

    /// What the connection manager knows of addresses and routes. Its handlers, which change that, do not run while the second value
    /// exists.
    pub fn route(&self, sleep: &MaySleep) -> (Route<'_>, Quiet<'_>) {
        let quiet = self.live.quiet(sleep);
        // SAFETY: `self`, which the result borrows, has the lock of calls.
        (unsafe { Route::new(self.live) }, quiet)
    }
}
