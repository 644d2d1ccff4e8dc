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
//! An identifier that has no device yet is in [`any_device`](crate::any_device).
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
//! C header: `include/rdma/rdma_cm.h`.

use core::ptr::NonNull;

use kernel::{ffi::c_int, prelude::*, sync::Arc, types::NotThreadSafe};
use kernel_ext::net::ns::NetNamespace;
use rdma::{
    bindings::{self, rdma_cm_event, rdma_cm_id},
    client::{
        later::Reserved,
        qp::{Init, Qp, QpRef, Rc, Reset, Rts, State, Ud},
        Device,
    },
    MaySleep,
};

use crate::{
    calls::{self, Asked, Calls},
    datagram, event, Address, Event, Options, Params, PortSpace, Reason, Tcp, Udp, TIMEOUT_MS,
};

mod handling;
mod id;
mod node;

use handling::connected;
pub use handling::Handling;
pub use id::Id;
pub(crate) use node::Turn;
use node::{Live, Node};

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

impl<'d, K: PortSpace, H: Handler<'d, K>> Node<'d, K, H> {
    /// Handles an event. Returns an errno for a request that is refused.
    ///
    /// # Safety
    ///
    /// The connection manager tells the event to the identifier, which is the node's, or that of a request to it; this task has its handler
    /// lock.
    unsafe fn enter(&self, id: &Calls<'d, K>, raw: &rdma_cm_event, sleep: &MaySleep) -> c_int {
        self.turn.begin();
        // SAFETY: By the safety requirements.
        let event = unsafe { Event::from_raw(raw, K::QP_TYPE) };
        let answer = match raw.event {
            // SAFETY: The connection manager has made the identifier for the request, and this task has its lock.
            bindings::RDMA_CM_EVENT_CONNECT_REQUEST => unsafe {
                hear((id, &self.device), event, |request| {
                    id.check_device(&self.device)?;
                    match self.has_ended() {
                        true => Err(event::refused()),
                        false => self.handler.request(request, sleep),
                    }
                })
            },
            _ => {
                self.tell(id, event, sleep);
                Ok(())
            }
        };
        self.turn.end();
        answer.map_or_else(Error::to_errno, |()| 0)
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

/// Lets somebody hear a request. It fails for one that is refused.
///
/// # Safety
///
/// The connection manager has made the identifier for the request, at the device, and this task has its handler lock.
pub(crate) unsafe fn hear<'d, K: PortSpace>(
    (id, device): (&Calls<'d, K>, &Device<'d>),
    event: Result<Option<Event>>,
    hears: impl FnOnce(Request<'_, 'd, K>) -> Result,
) -> Result {
    let request = event?.and_then(K::request).ok_or(EINVAL)?;
    let mut adopted = None;
    // INVARIANT: By the safety requirements.
    let heard = hears(Request {
        id,
        device,
        request,
        adopted: &mut adopted,
        _lock: NotThreadSafe,
    });
    match adopted {
        Some(turn) => turn.end(),
        None => heard.and(Err(event::refused()))?,
    }
    Ok(())
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
        let (node, room) = new(device, handler)?;
        // SAFETY: The node stays until the identifier is destroyed, because `Live` has a reference to it.
        unsafe {
            let context = node.context();
            let handler = event_handler::<K, H>;
            let raw = calls::create::<K>(device.owner(), net, options, handler, context)?;
            node.own(room, raw);
        }
        Ok(Self(node))
    }

    /// Binds to an address of the device, in a network namespace.
    fn bound(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, handler): (&Address, H),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(device, net, options, handler, sleep)?;
        let live = id.0.outside()?;
        live.bind(address)?;
        live.check_device(device)?;
        Ok(id)
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
        let id = Self::bound(device, net, options, (address, handler), sleep)?;
        id.0.outside()?.listen(backlog)?;
        Ok(id)
    }
}

impl<'d, H: Handler<'d, Udp>> Id<'d, Udp, H> {
    /// Binds to an address of the device, in a network namespace, for a queue pair that neither asks nor is asked: one of multicast groups.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, `EADDRINUSE`, `EINVAL` for options that are out of range, and those of the connection
    /// manager.
    pub fn bind(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, handler): (&Address, H),
        sleep: &MaySleep,
    ) -> Result<Self> {
        Self::bound(device, net, options, (address, handler), sleep)
    }
}

/// Gives an identifier to a node, whose handler gets its events from now on. It is in its handler as long as the turn does not end.
///
/// # Safety
///
/// The identifier is in its handler, this task alone uses it, and its owner gives it up.
pub(crate) unsafe fn hand_over<'d, K: PortSpace, H: Handler<'d, K>>(
    id: &Calls<'d, K>,
    (node, room): New<'d, K, H>,
) -> (Id<'d, K, H>, Arc<Turn>) {
    let turn = node.turn.clone();
    turn.begin();
    let raw = id.as_raw();
    // SAFETY: By the safety requirements. `Live` has a reference to the node.
    unsafe {
        (*raw).context = node.context();
        (*raw).event_handler = Some(event_handler::<K, H>);
        node.own(room, NonNull::new_unchecked(raw));
    }
    (Id(node), turn)
}

/// A node that is to have an identifier.
pub(crate) type New<'d, K, H> = (Arc<Node<'d, K, H>>, Reserved<'d, Live<'d, K, H>>);

/// Makes a node for an identifier that there is.
pub(crate) fn new<'d, K: PortSpace, H: Handler<'d, K>>(
    device: &Device<'d>,
    handler: H,
) -> Result<New<'d, K, H>> {
    Ok((Node::new(device, handler)?, Reserved::new()?))
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
        let new = new(self.device, handler)?;
        Ok(self.give(new))
    }

    fn give<H: Handler<'d, K>>(self, new: New<'d, K, H>) -> Id<'d, K, H> {
        // SAFETY: By the type invariants.
        let (id, turn) = unsafe { hand_over(self.id, new) };
        *self.adopted = Some(turn);
        id
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
        let new = new(self.device, handler(qp))?;
        self.answer(raw)?;
        Ok(self.give(new))
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
