// SPDX-License-Identifier: GPL-2.0

//! Identifiers that have no device yet: a listener on the wildcard address, or on one of whatever device has it; a connection whose device
//! the route decides.
//!
//! Such an identifier belongs to a client as a whole, not to one of its devices. Its [`Handler`] is told of what comes with the device, and
//! with the client's data of that device: there the new identifier of a request, or the one that has found its device, becomes an
//! identifier of the device, with a handler of [`handler`](crate::handler).
//!
//! | what comes | with the device | becomes an identifier of the device by |
//! |---|---|---|
//! | [`Handler::request`] | by which the peer asks | [`Request::accept`] or [`Request::adopt`] |
//! | [`Handler::resolved`] | at which the route begins | [`Resolved::adopt`]: its handler is told [`Event::AddrResolved`] at once |
//! | [`Handler::event`] | none: no address is resolved; the device of a listener's address is removed, or its address moves | |
//!
//! What comes by a device that the client does not have, or not yet, or no more, is refused, and such a route is no route. The client may be
//! leaving the device meanwhile: its data is dropped after the handler has returned.
//!
//! ```
//! use kernel::prelude::*;
//! use kernel_ext::{net::ns::NetNamespace, work::InstalledQueue};
//! use rdma::{
//!     client::{
//!         table::{Registration, Table},
//!         Client, Device,
//!     },
//!     MaySleep,
//! };
//! use rdma_cm::{
//!     any_device::{self, AnyDevice, Handler},
//!     handler::Request,
//!     Address, Options, Reason, Tcp,
//! };
//!
//! # struct Service;
//! # static TABLE: Table<Service> = Table::new();
//! # impl Client for Service {
//! #     type Data<'d> = ();
//! #     const NAME: &'static CStr = c"service";
//! #     fn table() -> &'static Table<Self> {
//! #         &TABLE
//! #     }
//! #     fn add<'d>(_device: &Device<'d>, _sleep: &MaySleep) -> Result {
//! #         Ok(())
//! #     }
//! # }
//! /// Has no resources for anybody.
//! struct Busy;
//!
//! impl Handler<Service, Tcp> for Busy {
//!     fn request<'d>(
//!         &self,
//!         _device: (&Device<'d>, &()),
//!         request: Request<'_, 'd, Tcp>,
//!         _sleep: &MaySleep,
//!     ) -> Result {
//!         request.reject(Reason::NO_RESOURCES, b"")
//!     }
//! }
//!
//! /// The members are dropped in this order.
//! struct Module {
//!     listener: AnyDevice<Service, Tcp, Busy>,
//!     client: Registration<Service>,
//!     closing: InstalledQueue,
//! }
//!
//! fn init(sleep: &MaySleep) -> Result<Module> {
//!     let closing = any_device::closing_queue(sleep)?;
//!     let client = TABLE.register(sleep)?;
//!     let (net, options, at) = (NetNamespace::init(), Options::default(), (&Address::any(7471), 8));
//!     let listener = AnyDevice::listen(&client, net, &options, at, Busy, sleep)?;
//!     Ok(Module { listener, client, closing })
//! }
//! ```
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Node::raw` | who owns the C identifier of a node | any, interrupts off | nothing |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    ffi::c_int, impl_has_work, new_work, prelude::*, sync::Arc, types::NotThreadSafe,
    workqueue::Work,
};
use kernel_ext::{
    error::ESHUTDOWN,
    net::ns::NetNamespace,
    sleepable::{self, Sleepable, SleepableWork},
    sync::{new_spinlock_irq, SpinLockIrq},
    uses::Uses,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    bindings::{self, rdma_cm_event, rdma_cm_id},
    client::{
        table::{Devices, Registration},
        Client, Device,
    },
    MaySleep,
};

use crate::{
    calls::{self, Calls},
    event,
    handler::{self, hear, Request, Turn},
    Address, Event, Options, PortSpace, TIMEOUT_MS,
};

/// Where identifiers are destroyed: not in their handlers, and not by whoever must not wait for these.
static CLOSING: GlobalQueue = GlobalQueue::new();

/// Starts the queue that destroys identifiers, for the whole module. Dropping the result, when no identifier is left, waits for all of them.
///
/// # Errors
///
/// `ENOMEM`.
pub fn closing_queue(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"rdma_cm_any", QueueFlags::UNBOUND, 0, sleep)?;
    Ok(CLOSING.install(queue))
}

/// What handles the events of an identifier without a device: in process context, one at a time.
pub trait Handler<C: Client, K: PortSpace>: Send + Sync + Sized + 'static {
    /// A request to an identifier that listens, by a device, with the client's data of it. By default all are refused.
    ///
    /// # Errors
    ///
    /// As for [`handler::Handler::request`].
    fn request<'d>(
        &self,
        _device: (&Device<'d>, &C::Data<'d>),
        _request: Request<'_, 'd, K>,
        _sleep: &MaySleep,
    ) -> Result {
        Err(event::refused())
    }

    /// The address is resolved, and the route begins at a device. Whoever does not adopt the identifier ends it, as the default does.
    ///
    /// # Errors
    ///
    /// An error ends the identifier.
    fn resolved<'d>(
        &self,
        _device: (&Device<'d>, &C::Data<'d>),
        _resolved: Resolved<'_, 'd, K>,
        _sleep: &MaySleep,
    ) -> Result {
        Ok(())
    }

    /// Any other event: [`Event::AddrError`] and [`Event::DeviceRemoval`], which are the last ones, and [`Event::AddrChange`]. `AddrError` with
    /// `ENODEV` also for a route that begins at a device which the client does not have.
    ///
    /// # Errors
    ///
    /// An error ends the identifier.
    fn event(&self, _event: Event, _sleep: &MaySleep) -> Result {
        Ok(())
    }
}

/// Who owns a C identifier.
enum Owned {
    /// The node.
    Live(NonNull<rdma_cm_id>),
    /// The work item of the node, which is queued.
    Ending(NonNull<rdma_cm_id>),
    /// An identifier of a device; or it is destroyed, or not made yet.
    Gone,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl Send for Owned {}

/// An identifier, with its handler.
///
/// # Invariants
///
/// The context of an identifier that the node or its work item owns is the node, for which somebody has a reference then.
#[pin_data]
struct Node<C: Client, K: PortSpace, H: Handler<C, K>> {
    #[pin]
    raw: SpinLockIrq<Owned>,
    handler: H,
    devices: Devices<C>,
    /// Calls of whoever begins something with the identifier: as long as there are some, it is neither given up nor destroyed.
    #[pin]
    calls: Uses,
    #[pin]
    work: Work<Sleepable<Self>>,
    _space: PhantomData<fn() -> K>,
}

impl_has_work! {
    impl{C: Client, K: PortSpace, H: Handler<C, K>} HasWork<Sleepable<Self>> for Node<C, K, H> { self.work }
}

impl<C: Client, K: PortSpace, H: Handler<C, K>> SleepableWork for Node<C, K, H> {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        this.calls.end(sleep);
        let owned = core::mem::replace(&mut *this.raw.lock(), Owned::Gone);
        if let Owned::Ending(raw) = owned {
            // SAFETY: The work item owns the identifier, and runs in no handler. No handler runs when the function returns.
            unsafe { bindings::rdma_destroy_id(raw.as_ptr()) };
        }
    }
}

impl<C: Client, K: PortSpace, H: Handler<C, K>> Node<C, K, H> {
    fn new(client: &Registration<C>, handler: H) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            raw <- new_spinlock_irq!(Owned::Gone, "Node::raw"),
            handler,
            devices: client.devices(),
            calls <- Uses::new(),
            work <- new_work!("Node::work"),
            _space: PhantomData,
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    fn is_live(&self) -> bool {
        matches!(*self.raw.lock(), Owned::Live(_))
    }

    /// Lets the work item destroy the identifier. Any context.
    fn end(this: &Arc<Self>) {
        {
            let mut owned = this.raw.lock();
            match *owned {
                Owned::Live(raw) => *owned = Owned::Ending(raw),
                Owned::Ending(_) | Owned::Gone => return,
            }
        }
        if CLOSING
            .with(|queue| sleepable::enqueue(queue, this))
            .is_none()
        {
            // It is kept, with its handler.
            pr_err!("an identifier is left\n");
            core::mem::forget(this.clone());
        }
    }

    /// Gives the identifier up, for somebody else to own it.
    fn give_up(&self) -> Result {
        let mut owned = self.raw.lock();
        match *owned {
            Owned::Live(_) => *owned = Owned::Gone,
            Owned::Ending(_) | Owned::Gone => return Err(ENXIO),
        }
        Ok(())
    }

    /// Handles an event. Returns an errno for a request that is refused.
    ///
    /// # Safety
    ///
    /// The connection manager tells the event to the identifier, which is the node's, or that of a request to it; this task has its handler
    /// lock.
    unsafe fn enter(
        this: &Arc<Self>,
        id: NonNull<rdma_cm_id>,
        raw: &mut rdma_cm_event,
        sleep: &MaySleep,
    ) -> c_int {
        // SAFETY: By the safety requirements.
        let event = unsafe { Event::from_raw(raw, K::QP_TYPE) };
        match raw.event {
            bindings::RDMA_CM_EVENT_CONNECT_REQUEST => {
                // SAFETY: By the safety requirements.
                unsafe { this.hear(id, event, sleep) }.map_or_else(Error::to_errno, |()| 0)
            }
            bindings::RDMA_CM_EVENT_ADDR_RESOLVED => {
                // SAFETY: By the safety requirements.
                match unsafe { this.find(id, sleep) } {
                    // SAFETY: By the safety requirements, with the handler and the context of who has adopted the identifier.
                    Ok(true) => unsafe { call(id, raw) },
                    Ok(false) => Self::end(this),
                    Err(error) => Self::tell(this, Ok(Some(Event::AddrError(error))), sleep),
                }
                0
            }
            _ => {
                Self::tell(this, event, sleep);
                0
            }
        }
    }

    /// Lets the handler hear a request.
    ///
    /// # Safety
    ///
    /// As for [`Self::enter`], with a request.
    unsafe fn hear(
        &self,
        id: NonNull<rdma_cm_id>,
        event: Result<Option<Event>>,
        sleep: &MaySleep,
    ) -> Result {
        if !self.is_live() {
            return Err(event::refused());
        }
        // SAFETY: The identifier is of this port space, and valid during its handler.
        let device = unsafe { Calls::<'_, K>::from_raw(id) }.device();
        let heard = self.devices.at(
            device.ok_or(EINVAL)?,
            |device, data, sleep| {
                // SAFETY: By the safety requirements; the device is that of the identifier.
                unsafe {
                    hear((Calls::from_raw(id), device), event, |request| {
                        self.handler.request((device, data), request, sleep)
                    })
                }
            },
            sleep,
        );
        heard.unwrap_or(Err(event::refused()))
    }

    /// Lets the handler see the device of a route. Whether it has adopted the identifier.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a device that the client does not have.
    ///
    /// # Safety
    ///
    /// As for [`Self::enter`], with an address that is resolved.
    unsafe fn find(&self, id: NonNull<rdma_cm_id>, sleep: &MaySleep) -> Result<bool> {
        if !self.is_live() {
            return Ok(false);
        }
        // SAFETY: The identifier is of this port space, and valid during its handler.
        let device = unsafe { Calls::<'_, K>::from_raw(id) }.device();
        // Whoever has begun to resolve may not have returned yet. That call waits for no handler.
        self.calls.end(sleep);
        let mut adopted = None;
        let found = self.devices.at(
            device.ok_or(ENODEV)?,
            |device, data, sleep| {
                // INVARIANT: By the safety requirements.
                let resolved = Resolved {
                    // SAFETY: The identifier is of this port space, and valid during its handler.
                    id: unsafe { Calls::from_raw(id) },
                    device,
                    give_up: &|| self.give_up(),
                    adopted: &mut adopted,
                    _lock: NotThreadSafe,
                };
                // An error ends the identifier, as not adopting it does.
                let _ = self.handler.resolved((device, data), resolved, sleep);
            },
            sleep,
        );
        if let Some(turn) = &adopted {
            turn.end();
        }
        found.ok_or(ENODEV).map(|()| adopted.is_some())
    }

    /// Lets the handler see any other event, and ends the identifier after an error. An event that there is no memory for is one.
    fn tell(this: &Arc<Self>, event: Result<Option<Event>>, sleep: &MaySleep) {
        if !this.is_live() {
            return;
        }
        let event = match event {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) => return Self::end(this),
        };
        let is_last = matches!(event, Event::AddrError(_) | Event::DeviceRemoval);
        if this.handler.event(event, sleep).is_err() || is_last {
            Self::end(this);
        }
    }
}

/// Calls the handler of an identifier, of an event that ends nothing.
///
/// # Safety
///
/// The connection manager tells the event to the identifier, whose handler lock this task has.
unsafe fn call(id: NonNull<rdma_cm_id>, event: &mut rdma_cm_event) {
    // SAFETY: By the safety requirements. The answer is 0 for all but requests.
    unsafe {
        if let Some(handler) = (*id.as_ptr()).event_handler {
            handler(id.as_ptr(), event);
        }
    }
}

/// An identifier whose route begins at a device. Dropping it ends the identifier.
///
/// # Invariants
///
/// The identifier is in its handler, has the device, and this task has its handler lock.
pub struct Resolved<'a, 'd, K: PortSpace> {
    id: &'a Calls<'d, K>,
    device: &'a Device<'d>,
    /// Lets its owner give the identifier up.
    give_up: &'a dyn Fn() -> Result,
    /// The turn of the handler that the identifier has been given to.
    adopted: &'a mut Option<Arc<Turn>>,
    _lock: NotThreadSafe,
}

impl<'d, K: PortSpace> Resolved<'_, 'd, K> {
    /// Makes it an identifier of the device, whose handler is told [`Event::AddrResolved`] next.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and `ENXIO` if its [`AnyDevice`] has been dropped meanwhile.
    pub fn adopt<H: handler::Handler<'d, K>>(self, handler: H) -> Result<handler::Id<'d, K, H>> {
        let new = handler::new(self.device, handler)?;
        (self.give_up)()?;
        // SAFETY: By the type invariants; its owner has given it up.
        let (id, turn) = unsafe { handler::hand_over(self.id, new) };
        *self.adopted = Some(turn);
        Ok(id)
    }
}

/// An identifier without a device, of a client. Dropping it lets a work item destroy it, unless it has become an identifier of a device.
pub struct AnyDevice<C: Client, K: PortSpace, H: Handler<C, K>>(Arc<Node<C, K, H>>);

impl<C: Client, K: PortSpace, H: Handler<C, K>> Drop for AnyDevice<C, K, H> {
    fn drop(&mut self) {
        Node::end(&self.0);
    }
}

impl<C: Client, K: PortSpace, H: Handler<C, K>> AnyDevice<C, K, H> {
    fn new(
        client: &Registration<C>,
        net: &NetNamespace,
        options: &Options,
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        CLOSING.with(|_| ()).ok_or(ESHUTDOWN)?;
        let node = Node::new(client, handler)?;
        let context = Arc::as_ptr(&node).cast_mut().cast();
        let handler = event_handler::<C, K, H>;
        // SAFETY: Whoever owns the identifier has a reference to the node.
        let raw = unsafe { calls::create::<K>(C::NAME, net, options, handler, context) }?;
        *node.raw.lock() = Owned::Live(raw);
        Ok(Self(node))
    }

    /// Calls `f` with the identifier, which waits for no handler.
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, K>) -> R) -> Result<R> {
        let _call = self.0.calls.enter().ok_or(ENXIO)?;
        let raw = match *self.0.raw.lock() {
            Owned::Live(raw) => raw,
            Owned::Ending(_) | Owned::Gone => return Err(ENXIO),
        };
        // SAFETY: The node owns the identifier, which neither the work item destroys nor another owner gets as long as there is a call.
        Ok(f(unsafe { Calls::from_raw(raw) }))
    }

    /// Listens for requests on an address of any device, or on all of them ([`Address::any`]), also of devices to come, in a network
    /// namespace; with the maximum number of pending requests.
    ///
    /// # Errors
    ///
    /// `ESHUTDOWN` without a [closing queue](closing_queue), `EADDRINUSE`, `ENOMEM`, `EINVAL` for options that are out of range, and those of
    /// the connection manager.
    pub fn listen(
        client: &Registration<C>,
        net: &NetNamespace,
        options: &Options,
        (address, backlog): (&Address, u16),
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(client, net, options, handler, sleep)?;
        id.with(|calls| calls.bind(address).and_then(|()| calls.listen(backlog)))??;
        Ok(id)
    }

    /// Begins to resolve an address, from a source to a destination in a network namespace, at whatever device the route begins.
    ///
    /// # Errors
    ///
    /// As for [`Self::listen`].
    pub fn resolve(
        client: &Registration<C>,
        net: &NetNamespace,
        options: &Options,
        (source, destination): (Option<&Address>, &Address),
        handler: H,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Self::new(client, net, options, handler, sleep)?;
        id.with(|calls| calls.resolve_address(source, destination, TIMEOUT_MS))??;
        Ok(id)
    }

    /// The local port of a listener. If the address had port 0, this is the port that was chosen.
    ///
    /// # Errors
    ///
    /// `ENXIO` if it has ended.
    pub fn port(&self) -> Result<u16> {
        self.with(|calls| calls.source_port())
    }

    /// The handler.
    pub fn handler(&self) -> &H {
        &self.0.handler
    }

    /// Whether it is an identifier of a device now, its handler has returned an error, or its last event was told.
    pub fn has_ended(&self) -> bool {
        !self.0.is_live()
    }
}

/// The C entry point of events.
///
/// # Safety
///
/// The connection manager calls it in process context, with the handler lock, with an event and an identifier of the port space `K`, whose
/// context is the [`Node`] that owns it. A request has a new identifier with the context of the listener, and its handler lock is held too.
unsafe extern "C" fn event_handler<C: Client, K: PortSpace, H: Handler<C, K>>(
    id: *mut rdma_cm_id,
    event: *mut rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements; the context is from `Arc::as_ptr`, and somebody has a reference as long as the handler lock is
    // held. The one that is taken here keeps the node when the identifier gets another owner.
    unsafe {
        let context = (*id).context.cast::<Node<C, K, H>>().cast_const();
        let node = Arc::clone(&ManuallyDrop::new(Arc::from_raw(context)));
        let id = NonNull::new_unchecked(id);
        Node::enter(&node, id, &mut *event, &MaySleep::assume())
    }
}
