// SPDX-License-Identifier: GPL-2.0

//! Identifiers whose events a [`Handler`] handles: `rdma_cm_event_handler`.
//!
//! | who asks | who is asked |
//! |---|---|
//! | [`Id::resolve`] an address | [`Id::listen`] on an address |
//! | [`Event::AddrResolved`]: [`Handling::resolve_route`] | [`Handler::request`]: a [`Request`], with an identifier of its own |
//! | [`Event::RouteResolved`]: [`Handling::connect`] | [`Request::accept`], or [`Request::reject`] |
//! | [`Event::ConnectResponse`]: [`Handling::confirm`] | [`Event::Established`], told to the new identifier |
//!
//! The rules of the connection manager are types here:
//!
//! | rule | how |
//! |---|---|
//! | a handler that returns an error ends its identifier | [`Handler::event`] returns a `Result`. After an error nothing is told any more, and calls fail with `ENXIO` |
//! | nobody destroys an identifier in its handler | a work item of the client does that, after an [`Id`] is dropped or ended, and all calls have returned |
//! | the identifier of a request that nobody takes over is destroyed | [`Request`] is a value: what is neither accepted nor adopted is refused |
//! | an identifier of a listener moves to who answers | [`Request::accept`] and [`Request::adopt`] consume the request, and return an [`Id`] with a handler of its own |
//! | what an identifier may do with its handler lock held, it does in its handler | methods of [`Handling`]. Those of an [`Id`], which wait for handlers, fail with `EDEADLK` there |
//! | an identifier goes before its device | as all objects with the lifetime of the device. One that has found the way to another device ends with [`Event::AddrError`] |
//!
//! ```
//! use kernel::prelude::*;
//! use kernel_ext::error::ESHUTDOWN;
//! use rdma::{
//!     client::qp::{Qp, Rc, Reset, Rts},
//!     MaySleep,
//! };
//! use rdma_cm::{
//!     handler::{Handler, Handling, Request},
//!     Event, Params, Tcp,
//! };
//!
//! /// A connection, which has its queue pair.
//! struct Connection<'d>(Qp<'d, Rc, Rts>);
//!
//! impl<'d> Handler<'d, Tcp> for Connection<'d> {
//!     fn event(&self, _id: &Handling<'_, 'd, Tcp>, event: Event, _sleep: &MaySleep) -> Result {
//!         match event {
//!             // The identifier ends.
//!             Event::Disconnected => Err(ESHUTDOWN),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! /// Accepts a connection.
//! fn accept<'d>(
//!     request: Request<'_, 'd, Tcp>,
//!     qp: Qp<'d, Rc, Reset>,
//!     params: &Params<'_>,
//!     sleep: &MaySleep,
//! ) -> Result<rdma_cm::handler::Id<'d, Tcp, Connection<'d>>> {
//!     let qp = request.init(qp, sleep)?;
//!     // Receives are posted here.
//!     let qp = request.ready(qp, sleep)?;
//!     request.accept(qp, params, Connection)
//! }
//! ```
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Node::live` | the C identifier of a node, until it ends | any, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
    sync::Arc,
    types::NotThreadSafe,
};
use kernel_ext::{
    net::ns::NetNamespace,
    sync::{new_spinlock_irq, SpinLockIrq},
};
use rdma::{
    bindings::{self, rdma_cm_event, rdma_cm_id},
    client::{
        later::{End, Later, Reserved},
        qp::{Init, Qp, QpRef, Rc, Reset, Rtr, Rts, State, Ud},
        Device,
    },
    MaySleep,
};

use crate::{
    calls::{self, Asked, Calls},
    datagram, event, Address, Event, Options, Params, PortSpace, Reason, Tcp, Udp, TIMEOUT_MS,
};

/// What handles the events of an identifier: in process context, one at a time.
pub trait Handler<'d, K: PortSpace>: Send + Sync + Sized + 'd {
    /// An event, other than a request. By default all are ignored: for who only listens.
    ///
    /// # Errors
    ///
    /// An error ends the identifier.
    fn event(&self, _id: &Handling<'_, 'd, K>, _event: Event, _sleep: &MaySleep) -> Result {
        Ok(())
    }

    /// A request to an identifier that listens. By default all are refused.
    ///
    /// # Errors
    ///
    /// An error refuses the request, if that is not accepted or adopted yet; `ENOMEM` without a word, so that the peer tries again.
    fn request(&self, _request: Request<'_, 'd, K>, _sleep: &MaySleep) -> Result {
        Err(event::refused())
    }
}

/// A handler that has locks is pinned.
impl<'d, K: PortSpace, H: Handler<'d, K>> Handler<'d, K> for Pin<KBox<H>> {
    fn event(&self, id: &Handling<'_, 'd, K>, event: Event, sleep: &MaySleep) -> Result {
        H::event(self, id, event, sleep)
    }

    fn request(&self, request: Request<'_, 'd, K>, sleep: &MaySleep) -> Result {
        H::request(self, request, sleep)
    }
}

/// The task that is in the handler of an identifier, if one is.
struct Turn(AtomicUsize);

impl Turn {
    fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self(AtomicUsize::new(0)), GFP_KERNEL)?)
    }

    fn this_task() -> usize {
        core::ptr::from_ref(&**kernel::current!()).addr()
    }

    fn begin(&self) {
        self.0.store(Self::this_task(), Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// # Errors
    ///
    /// `EDEADLK` if this task has the turn: only this one could have stored its number.
    fn check_outside(&self) -> Result {
        match self.0.load(Ordering::Relaxed) == Self::this_task() {
            true => Err(Error::from_errno(-(bindings::EDEADLK as i32))),
            false => Ok(()),
        }
    }
}

/// An identifier, and its handler, which stays until the identifier is destroyed.
#[pin_data]
struct Node<'d, K: PortSpace, H: Handler<'d, K>> {
    #[pin]
    live: SpinLockIrq<Option<Later<'d, Live<'d, K, H>>>>,
    turn: Arc<Turn>,
    handler: H,
    /// The device, whose removal waits until the handler is dropped.
    device: Device<'d>,
}

/// A C identifier.
///
/// # Invariants
///
/// `self` owns the identifier, which is of the port space `K`, and whose context is `node`.
struct Live<'d, K: PortSpace, H: Handler<'d, K>> {
    raw: NonNull<rdma_cm_id>,
    /// Handlers use it: it is here for them.
    _node: Arc<Node<'d, K, H>>,
}

// SAFETY: Identifiers may be used from any thread, and so may handlers.
unsafe impl<'d, K: PortSpace, H: Handler<'d, K>> Send for Live<'d, K, H> {}
// SAFETY: Identifiers may be used from any thread, and so may handlers.
unsafe impl<'d, K: PortSpace, H: Handler<'d, K>> Sync for Live<'d, K, H> {}

impl<'d, K: PortSpace, H: Handler<'d, K>> Deref for Live<'d, K, H> {
    type Target = Calls<'d, K>;

    fn deref(&self) -> &Calls<'d, K> {
        // SAFETY: By the type invariants.
        unsafe { Calls::from_raw(self.raw) }
    }
}

impl<'d, K: PortSpace, H: Handler<'d, K>> End for Live<'d, K, H> {
    fn end(&self, _sleep: &MaySleep) {
        // SAFETY: By the type invariants `self` owns the identifier, and there are no users. No handler runs when the function returns.
        unsafe { bindings::rdma_destroy_id(self.raw.as_ptr()) };
    }
}

impl<'d, K: PortSpace, H: Handler<'d, K>> Node<'d, K, H> {
    fn new(device: &Device<'d>, handler: H) -> Result<Arc<Self>> {
        let init = try_pin_init!(Self {
            live <- new_spinlock_irq!(None, "Node::live"),
            turn: Turn::new()?,
            handler,
            device: device.clone(),
        }? Error);
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Makes a new C identifier that of the node.
    ///
    /// # Safety
    ///
    /// The identifier is of the port space `K`, its context is the node, and its owner gives it up.
    unsafe fn own(
        self: &Arc<Self>,
        room: Reserved<'d, Live<'d, K, H>>,
        raw: NonNull<rdma_cm_id>,
    ) -> Id<'d, K, H> {
        // INVARIANT: By the safety requirements.
        let live = Live {
            raw,
            _node: self.clone(),
        };
        *self.live.lock() = Some(room.fill(&self.device, live));
        Id(self.clone())
    }

    fn context(self: &Arc<Self>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// Lets a work item destroy the identifier, when it is in use no more. Any context.
    fn end(&self) {
        let live = self.live.lock().take();
        drop(live);
    }

    fn has_ended(&self) -> bool {
        self.live.lock().is_none()
    }

    /// The identifier, for whoever is not in its handler.
    fn outside(&self) -> Result<Later<'d, Live<'d, K, H>>> {
        self.turn.check_outside()?;
        self.live.lock().clone().ok_or(ENXIO)
    }
}

impl<'d, K: PortSpace, H: Handler<'d, K>> Node<'d, K, H> {
    /// Handles an event. Returns an errno for a request that is refused.
    ///
    /// # Safety
    ///
    /// The connection manager tells the event to the identifier, which is the node's, or that of a request to it; this task has its handler
    /// lock.
    unsafe fn enter(&self, id: &Calls<'d, K>, raw: &rdma_cm_event, sleep: &MaySleep) -> c_int {
        let mut adopted = None;
        self.turn.begin();
        // SAFETY: By the safety requirements.
        let event = unsafe { Event::from_raw(raw, K::QP_TYPE) };
        let answer = match raw.event {
            bindings::RDMA_CM_EVENT_CONNECT_REQUEST => {
                let asked = event.and_then(|event| self.hear(id, event, &mut adopted, sleep));
                match (&adopted, asked) {
                    (Some(_), _) => Ok(()),
                    (None, Err(error)) => Err(error),
                    (None, Ok(())) => Err(event::refused()),
                }
            }
            _ => {
                self.tell(id, event, sleep);
                Ok(())
            }
        };
        self.turn.end();
        if let Some(turn) = adopted {
            turn.end();
        }
        answer.map_or_else(Error::to_errno, |()| 0)
    }

    /// Lets the handler see a request.
    fn hear(
        &self,
        id: &Calls<'d, K>,
        event: Option<Event>,
        adopted: &mut Option<Arc<Turn>>,
        sleep: &MaySleep,
    ) -> Result {
        id.check_device(&self.device)?;
        let request = event.and_then(K::request).ok_or(EINVAL)?;
        if self.has_ended() {
            return Err(event::refused());
        }
        // INVARIANT: The connection manager has made the identifier for the request, and `enter` has its lock.
        let request = Request {
            id,
            device: &self.device,
            request,
            adopted,
            _lock: NotThreadSafe,
        };
        self.handler.request(request, sleep)
    }

    /// Lets the handler see any other event, and ends the identifier after an error. An event that there is no memory for is one.
    fn tell(&self, id: &Calls<'d, K>, event: Result<Option<Event>>, sleep: &MaySleep) {
        if self.has_ended() {
            return;
        }
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) => return self.end(),
        };
        let (event, is_last) = match event {
            Event::AddrResolved if id.check_device(&self.device).is_err() => {
                (Event::AddrError(ENODEV), true)
            }
            Event::DeviceRemoval => (event, true),
            event => (event, false),
        };
        // INVARIANT: `enter` has the lock.
        let handling = Handling(id, NotThreadSafe);
        if self.handler.event(&handling, event, sleep).is_err() || is_last {
            self.end();
        }
    }
}

/// An identifier with its handler. Dropping it lets a work item destroy it.
///
/// Its calls fail with `ENXIO` once it has ended, with `EDEADLK` in its handler, and with the errors of the connection manager.
pub struct Id<'d, K: PortSpace, H: Handler<'d, K>>(Arc<Node<'d, K, H>>);

impl<'d, K: PortSpace, H: Handler<'d, K>> Drop for Id<'d, K, H> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'d, K: PortSpace, H: Handler<'d, K>> Id<'d, K, H> {
    fn new(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        let node = Node::new(device, handler)?;
        let room = Reserved::new()?;
        // SAFETY: The node stays until the identifier is destroyed, because `Live` has a reference to it.
        unsafe {
            let context = node.context();
            let raw =
                calls::create::<K>(device, net, options, Some(event_handler::<K, H>), context)?;
            Ok(node.own(room, raw))
        }
    }

    /// Begins to resolve an address, from a source to a destination in a network namespace. The handler gets [`Event::AddrResolved`] or
    /// [`Event::AddrError`]; `ENODEV` if the route does not begin at this device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` for options that are out of range, and those of the connection manager.
    pub fn resolve(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (source, destination): (Option<&Address>, &Address),
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(device, net, options, handler, sleep)?;
        id.0.outside()?
            .resolve_address(source, destination, TIMEOUT_MS)?;
        Ok(id)
    }

    /// Listens for requests on an address of the device, in a network namespace; with an address, and the maximum number of pending
    /// requests.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, `EADDRINUSE`, `EINVAL` for options that are out of range, and those of the connection
    /// manager.
    pub fn listen(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, backlog): (&Address, u16),
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(device, net, options, handler, sleep)?;
        let live = id.0.outside()?;
        live.bind(address)?;
        live.check_device(device)?;
        live.listen(backlog)?;
        Ok(id)
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.0.handler
    }

    /// Whether its handler has returned an error, or its device goes.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended()
    }

    /// The local port. If the address had port 0, this is the port that was chosen.
    ///
    /// # Errors
    ///
    /// As for all calls.
    pub fn port(&self) -> Result<u16> {
        Ok(self.0.outside()?.source_port())
    }

    /// Closes the connection (DREQ), or replies to the peer that has closed it (DREP).
    ///
    /// # Errors
    ///
    /// As for all calls; `EINVAL` for a closed connection.
    pub fn disconnect(&self, sleep: &MaySleep) -> Result {
        sleep.check();
        self.0.outside()?.disconnect()
    }

    /// Rejects an adopted request, with private data.
    ///
    /// # Errors
    ///
    /// As for all calls; `EINVAL` for too much private data.
    pub fn reject(&self, reason: Reason, why: &[u8], sleep: &MaySleep) -> Result {
        sleep.check();
        self.0.outside()?.reject(reason, why)
    }
}

impl<'d, H: Handler<'d, Tcp>> Id<'d, Tcp, H> {
    /// Initialises a queue pair for an adopted request.
    ///
    /// # Errors
    ///
    /// As for all calls, and those of the driver.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.0.outside()?.modify(qp, sleep)
    }

    /// Moves a queue pair to RTS for the peer of an adopted request.
    ///
    /// # Errors
    ///
    /// As for all calls, and those of the driver.
    pub fn ready(&self, qp: Qp<'d, Rc, Init>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Rts>> {
        let live = self.0.outside()?;
        connected(&live, qp, sleep)
    }

    /// Accepts an adopted request.
    ///
    /// # Errors
    ///
    /// As for all calls; `EINVAL` for too much private data.
    pub fn accept(&self, qp: &Qp<'d, Rc, Rts>, params: &Params<'_>, sleep: &MaySleep) -> Result {
        sleep.check();
        let raw = params.to_raw(qp.number(), qp.has_srq())?;
        self.0.outside()?.accept(Some(raw))
    }
}

impl<'d, H: Handler<'d, Udp>> Id<'d, Udp, H> {
    /// Makes a queue pair ready for datagrams: that of a service, for who listens.
    ///
    /// # Errors
    ///
    /// As for all calls, and those of the driver.
    pub fn ready(&self, qp: Qp<'d, Ud, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Ud, Rts>> {
        let live = self.0.outside()?;
        datagram::ready(&live, qp, sleep)
    }

    /// Tells a queue pair to the peer of an adopted request, with private data of up to 136 bytes.
    ///
    /// # Errors
    ///
    /// As for all calls; `EINVAL` for too much private data.
    pub fn accept<S: State>(
        &self,
        qp: &QpRef<'d, Ud, S>,
        private_data: &[u8],
        sleep: &MaySleep,
    ) -> Result {
        sleep.check();
        let raw = datagram::params(private_data, qp.number())?;
        self.0.outside()?.accept(Some(raw))
    }
}

/// Moves a queue pair to RTS, for the peer that is known.
fn connected<'d>(
    id: &Calls<'d, Tcp>,
    qp: Qp<'d, Rc, Init>,
    sleep: &MaySleep,
) -> Result<Qp<'d, Rc, Rts>> {
    let qp: Qp<'d, Rc, Rtr> = id.modify(qp, sleep)?;
    id.modify(qp, sleep)
}

/// An identifier in its handler.
///
/// # Invariants
///
/// This task has the handler lock.
pub struct Handling<'a, 'd, K>(&'a Calls<'d, K>, NotThreadSafe);

impl<'d, K: PortSpace> Handling<'_, 'd, K> {
    /// Begins to resolve the route to an address that is resolved. The handler gets [`Event::RouteResolved`] or [`Event::RouteError`].
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn resolve_route(&self) -> Result {
        self.0.resolve_route(TIMEOUT_MS)
    }

    fn ask(&self, raw: Asked) -> Result {
        // SAFETY: By the type invariants.
        unsafe { self.0.connect_locked(raw) }
    }
}

impl<'d> Handling<'_, 'd, Tcp> {
    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.0.modify(qp, sleep)
    }

    /// Sends a connection request (REQ) to the peer, for a queue pair. The handler gets [`Event::ConnectResponse`],
    /// [`Event::Rejected`], [`Event::Unreachable`] or [`Event::ConnectError`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, `EOPNOTSUPP` with options of a vendor, for which the C interface has no such call, and those
    /// of the connection manager.
    pub fn connect(&self, qp: &Qp<'d, Rc, Init>, params: &Params<'_>) -> Result {
        self.ask(params.to_raw(qp.number(), qp.has_srq())?)
    }

    /// Moves the queue pair to RTS for the peer that has replied, and confirms the connection (RTU).
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn confirm(&self, qp: Qp<'d, Rc, Init>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Rts>> {
        let qp = connected(self.0, qp, sleep)?;
        // SAFETY: By the type invariants.
        unsafe { self.0.accept_locked(None) }?;
        Ok(qp)
    }

    /// Closes the connection (DREQ), or replies to the peer that has closed it (DREP).
    ///
    /// # Errors
    ///
    /// `EINVAL` for a closed connection, and those of the connection manager.
    pub fn disconnect(&self) -> Result {
        self.0.disconnect()
    }
}

impl<'d> Handling<'_, 'd, Udp> {
    /// Makes a queue pair ready for datagrams.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn ready(&self, qp: Qp<'d, Ud, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Ud, Rts>> {
        datagram::ready(self.0, qp, sleep)
    }

    /// Asks for the queue pair of the peer (SIDR), with private data of up to 180 bytes. The handler gets [`Event::Found`] or
    /// [`Event::Unreachable`].
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
    pub fn look_up<S: State>(&self, qp: &QpRef<'d, Ud, S>, private_data: &[u8]) -> Result {
        self.ask(datagram::params(private_data, qp.number())?)
    }
}

/// A request, with the new identifier that it has come with. Dropping it refuses the request.
///
/// # Invariants
///
/// The identifier is lent to the handler of the listener: nobody else uses it, and this task has its handler lock.
pub struct Request<'a, 'd, K: PortSpace> {
    id: &'a Calls<'d, K>,
    device: &'a Device<'d>,
    request: K::Request,
    /// The turn of the handler that the identifier has been given to.
    adopted: &'a mut Option<Arc<Turn>>,
    _lock: NotThreadSafe,
}

impl<'d, K: PortSpace> Request<'_, 'd, K> {
    /// What the peer asks for.
    pub fn get(&self) -> &K::Request {
        &self.request
    }

    /// Takes over the identifier, whose events `handler` gets from now on. The request is to be answered by it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`: the request is refused.
    pub fn adopt<H: Handler<'d, K>>(self, handler: H) -> Result<Id<'d, K, H>> {
        let node = Node::new(self.device, handler)?;
        let room = Reserved::new()?;
        Ok(self.hand_over(node, room))
    }

    fn hand_over<H: Handler<'d, K>>(
        self,
        node: Arc<Node<'d, K, H>>,
        room: Reserved<'d, Live<'d, K, H>>,
    ) -> Id<'d, K, H> {
        node.turn.begin();
        *self.adopted = Some(node.turn.clone());
        let raw = self.id.as_raw();
        // SAFETY: By the type invariants this task alone uses the identifier. `Live` has a reference to the node.
        unsafe {
            (*raw).context = node.context();
            (*raw).event_handler = Some(event_handler::<K, H>);
            node.own(room, NonNull::new_unchecked(raw))
        }
    }

    /// Rejects the request for a reason, with private data.
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn reject(self, reason: Reason, why: &[u8]) -> Result {
        self.id.reject(reason, why)
    }

    fn answer(&self, raw: Asked) -> Result {
        // SAFETY: By the type invariants.
        unsafe { self.id.accept_locked(Some(raw)) }
    }
}

impl<'d> Request<'_, 'd, Tcp> {
    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.id.modify(qp, sleep)
    }

    /// Moves a queue pair to RTS for the peer, without sending the reply.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn ready(&self, qp: Qp<'d, Rc, Init>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Rts>> {
        connected(self.id, qp, sleep)
    }

    /// Accepts the request, and takes over the identifier. `handler` makes its handler of the queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, `ENOMEM`, and those of the connection manager.
    pub fn accept<H: Handler<'d, Tcp>>(
        self,
        qp: Qp<'d, Rc, Rts>,
        params: &Params<'_>,
        handler: impl FnOnce(Qp<'d, Rc, Rts>) -> H,
    ) -> Result<Id<'d, Tcp, H>> {
        let raw = params.to_raw(qp.number(), qp.has_srq())?;
        let node = Node::new(self.device, handler(qp))?;
        let room = Reserved::new()?;
        self.answer(raw)?;
        Ok(self.hand_over(node, room))
    }
}

impl<'d> Request<'_, 'd, Udp> {
    /// Tells the peer a queue pair, with private data of up to 136 bytes. The identifier has done its work then.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
    pub fn accept<S: State>(self, qp: &QpRef<'d, Ud, S>, private_data: &[u8]) -> Result {
        self.answer(datagram::params(private_data, qp.number())?)
    }
}

/// The C entry point of events.
///
/// # Safety
///
/// The connection manager calls it in process context, with the handler lock, with an event and an identifier of the port space `K`, whose
/// context is the [`Node`] of a [`Live`]. A request has a new identifier with the context of the listener, and its handler lock is held too.
unsafe extern "C" fn event_handler<'d, K: PortSpace, H: Handler<'d, K>>(
    id: *mut rdma_cm_id,
    event: *mut rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements. The node is there until its identifier is destroyed, which waits for this call.
    unsafe {
        let node = &*(*id).context.cast::<Node<'d, K, H>>();
        let id = Calls::from_raw(NonNull::new_unchecked(id));
        node.enter(id, &*event, &MaySleep::assume())
    }
}
