// SPDX-License-Identifier: GPL-2.0

//! Connections of clients, made by the connection manager: `rdma_cm`.
//!
//! A crate of its own, since who links to it needs `rdma_cm.ko`, which other clients do not. [`verbs`](rdma::client) has queue
//! pairs whose clients exchange what is needed by means of their own.
//!
//! | the one side | the other |
//! |---|---|
//! | [`Route::resolve`] an address, on a device | [`Listener::new`] on an address of a device |
//! | [`Route::init`] a queue pair, post requests to receive | [`Listener::next`]: a [`Request`] |
//! | [`Route::connect`]: a [`Connection`] | [`Request::init`] a queue pair, post requests to receive |
//! | | [`Request::accept`]: a [`Connection`]; or [`Request::reject`] |
//!
//! All of it may sleep, and all of it is a client's of one device: it goes with the client's data of that.
//!
//! ```
//! use kernel::prelude::*;
//! use kernel_ext::net::ns::NetNamespace;
//! use rdma::{
//!     client::{
//!         qp::{Rc, Reset},
//!         Device, Qp,
//!     },
//!     MaySleep,
//! };
//! use rdma_cm::{Address, Connection, Params, Route};
//!
//! /// Connects to port 7174 of a peer.
//! fn connect<'d>(
//!     device: &Device<'d>,
//!     peer: [u8; 4],
//!     qp: Qp<'d, Rc, Reset>,
//!     sleep: &MaySleep,
//! ) -> Result<Connection<'d>> {
//!     let params = Params {
//!         private_data: b"hello",
//!         responder_resources: 1,
//!         initiator_depth: 1,
//!         retries: 7,
//!         rnr_retries: 7,
//!     };
//!     let (net, address) = (NetNamespace::init(), Address::V4(peer, 7174));
//!     let route = Route::resolve(device, net, None, &address, sleep)?;
//!     let qp = route.init(qp, sleep)?;
//!     // Before it is connected, requests to receive are posted.
//!     let (connection, _answer) = route.connect(qp, &params, sleep)?;
//!     Ok(connection)
//! }
//! ```
//!
//! C header: `include/rdma/rdma_cm.h`.

mod address;
mod id;

use kernel::prelude::*;
use kernel_ext::net::ns::NetNamespace;
use rdma::{
    bindings::{self, rdma_conn_param},
    client::{
        qp::{Init, Qp, Rc, Reset, Rtr, Rts},
        Device,
    },
    MaySleep,
};

pub use address::Address;
use id::{Event, Id};

/// What messages in the log begin with.
const __LOG_PREFIX: &[u8] = b"rdma_cm\0";

/// How long answers are waited for, in milliseconds.
const TIMEOUT_MS: u32 = 10_000;

/// How two ends talk.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    /// What the peer is told besides: up to 56 bytes from who connects, 196 from who accepts.
    pub private_data: &'a [u8],
    /// How many RDMA READs and atomic operations of the peer may be under way.
    pub responder_resources: u8,
    /// How many of one's own may be.
    pub initiator_depth: u8,
    /// How often a packet is sent again that is not acknowledged, up to 7. Only who connects says that.
    pub retries: u8,
    /// How often one is for which the peer was not ready, up to 6; 7: for ever.
    pub rnr_retries: u8,
}

impl Params<'_> {
    fn to_raw(self, qp_num: u32, has_srq: bool) -> Result<rdma_conn_param> {
        Ok(rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).map_err(|_| EINVAL)?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 1,
            retry_count: self.retries,
            rnr_retry_count: self.rnr_retries,
            srq: has_srq.into(),
            qp_num,
            qkey: 0,
        })
    }
}

/// A way to a peer, from a device.
pub struct Route<'d> {
    id: Id<'d>,
}

impl<'d> Route<'d> {
    /// Finds the way to an address, in a network namespace.
    ///
    /// # Errors
    ///
    /// `ENODEV` where the way does not begin at this device, `ETIMEDOUT`, and what the connection manager answers.
    pub fn resolve(
        device: &Device<'d>,
        net: &NetNamespace,
        source: Option<&Address>,
        destination: &Address,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::new(device, net, sleep)?;
        id.resolve_address(source, destination, TIMEOUT_MS)?;
        id.expect(bindings::RDMA_CM_EVENT_ADDR_RESOLVED, TIMEOUT_MS, sleep)?;
        id.check_device()?;
        id.resolve_route(TIMEOUT_MS)?;
        id.expect(bindings::RDMA_CM_EVENT_ROUTE_RESOLVED, TIMEOUT_MS, sleep)?;
        Ok(Self { id })
    }

    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// What the connection manager and the driver answer.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.id.modify(qp, sleep)
    }

    /// Connects, and waits until that is done: see [`Self::begin`] and [`Connecting::finish`].
    ///
    /// # Errors
    ///
    /// As for these.
    pub fn connect(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<(Connection<'d>, KVec<u8>)> {
        self.begin(qp, params, sleep)?.finish(sleep)
    }

    /// Asks the peer for a connection.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and what the connection manager answers.
    pub fn begin(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<Connecting<'d>> {
        sleep.check();
        let raw = params.to_raw(qp.number(), qp.has_srq())?;
        self.id.connect(raw)?;
        Ok(Connecting { qp, id: self.id })
    }
}

/// A connection that the peer was asked for.
pub struct Connecting<'d> {
    /// The queue pair, which goes before the identifier.
    qp: Qp<'d, Rc, Init>,
    id: Id<'d>,
}

impl<'d> Connecting<'d> {
    /// Waits for the peer's answer. Returns what it has told besides, too.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` where the peer rejects, `ETIMEDOUT`, and what the connection manager and the driver answer.
    pub fn finish(self, sleep: &MaySleep) -> Result<(Connection<'d>, KVec<u8>)> {
        let kind = bindings::RDMA_CM_EVENT_CONNECT_RESPONSE;
        let event = self.id.expect(kind, TIMEOUT_MS, sleep)?;
        let qp: Qp<'d, Rc, Rtr> = self.id.modify(self.qp, sleep)?;
        let qp: Qp<'d, Rc, Rts> = self.id.modify(qp, sleep)?;
        // The peer hears that this side is ready.
        self.id.accept(None)?;
        Ok((Connection { qp, id: self.id }, event.private_data))
    }
}

/// Who waits for peers, on an address of a device.
pub struct Listener<'d> {
    id: Id<'d>,
}

impl<'d> Listener<'d> {
    /// Listens, in a network namespace. `backlog` is how many requests may wait.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address that is not this device's, `EADDRINUSE`, and what the connection manager answers.
    pub fn new(
        device: &Device<'d>,
        net: &NetNamespace,
        address: &Address,
        backlog: u16,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::new(device, net, sleep)?;
        id.bind(address)?;
        id.check_device()?;
        id.listen(backlog)?;
        Ok(Self { id })
    }

    /// The port that is listened on: the one that was found where 0 was asked for.
    pub fn port(&self) -> u16 {
        self.id.source_port()
    }

    /// Waits for the next peer.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` where there is none for so many milliseconds.
    pub fn next(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Request<'d>> {
        let kind = bindings::RDMA_CM_EVENT_CONNECT_REQUEST;
        let Event {
            private_data, id, ..
        } = self.id.expect(kind, timeout_ms, sleep)?;
        let id = id.ok_or(EIO)?;
        Ok(Request { id, private_data })
    }
}

/// A peer wants to connect. Dropping this rejects it.
pub struct Request<'d> {
    id: Id<'d>,
    private_data: KVec<u8>,
}

impl<'d> Request<'d> {
    /// What the peer tells besides: 56 bytes, of which the last may have no meaning.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// What the connection manager and the driver answer.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.id.modify(qp, sleep)
    }

    /// Lets the peer connect, and waits until that is done: see [`Self::begin`] and [`Accepting::finish`].
    ///
    /// # Errors
    ///
    /// As for these.
    pub fn accept(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<Connection<'d>> {
        self.begin(qp, params, sleep)?.finish(sleep)
    }

    /// Lets the peer connect: [`Self::ready`] and [`Ready::accept`].
    ///
    /// # Errors
    ///
    /// As for these.
    pub fn begin(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<Accepting<'d>> {
        self.ready(qp, sleep)?.accept(params, sleep)
    }

    /// Makes a queue pair ready for the peer, who does not hear of it yet.
    ///
    /// # Errors
    ///
    /// What the connection manager and the driver answer.
    pub fn ready(self, qp: Qp<'d, Rc, Init>, sleep: &MaySleep) -> Result<Ready<'d>> {
        let qp: Qp<'d, Rc, Rtr> = self.id.modify(qp, sleep)?;
        let qp: Qp<'d, Rc, Rts> = self.id.modify(qp, sleep)?;
        Ok(Ready { qp, id: self.id })
    }

    /// Does not let the peer connect, and tells it why: up to 148 bytes.
    ///
    /// # Errors
    ///
    /// What the connection manager answers.
    pub fn reject(self, why: &[u8], sleep: &MaySleep) -> Result {
        sleep.check();
        self.id.reject(why)
    }
}

/// A queue pair that is ready for a peer who wants to connect. Dropping this rejects the peer.
pub struct Ready<'d> {
    /// The queue pair, which goes before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d>,
}

impl<'d> core::ops::Deref for Ready<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.qp
    }
}

impl<'d> Ready<'d> {
    /// Lets the peer connect.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and what the connection manager answers.
    pub fn accept(self, params: &Params<'_>, sleep: &MaySleep) -> Result<Accepting<'d>> {
        sleep.check();
        let raw = params.to_raw(self.qp.number(), self.qp.has_srq())?;
        self.id.accept(Some(raw))?;
        Ok(Accepting {
            qp: self.qp,
            id: self.id,
        })
    }
}

/// A connection that a peer may make.
pub struct Accepting<'d> {
    /// The queue pair, which goes before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d>,
}

impl<'d> Accepting<'d> {
    /// Waits until the peer has heard of it.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` and others where the peer is gone.
    pub fn finish(self, sleep: &MaySleep) -> Result<Connection<'d>> {
        let kind = bindings::RDMA_CM_EVENT_ESTABLISHED;
        self.id.expect(kind, TIMEOUT_MS, sleep)?;
        let Self { qp, id } = self;
        Ok(Connection { qp, id })
    }
}

/// A connection. Dropping it disconnects, and waits until all that is posted has been handled.
pub struct Connection<'d> {
    /// The queue pair, which goes before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d>,
}

impl<'d> core::ops::Deref for Connection<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.qp
    }
}

impl Connection<'_> {
    /// Ends the connection, or answers the peer who has ended it: requests are flushed, at both ends.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that is ended, and what the connection manager answers.
    pub fn disconnect(&self, sleep: &MaySleep) -> Result {
        sleep.check();
        self.id.disconnect()
    }

    /// Waits until the peer has ended the connection, or has answered that this side has, or the device goes.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` where that is not so for so many milliseconds.
    pub fn wait_disconnected(&self, timeout_ms: u32, sleep: &MaySleep) -> Result {
        let kind = bindings::RDMA_CM_EVENT_DISCONNECTED;
        self.id.expect(kind, timeout_ms, sleep).map(drop)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // It may be disconnected already.
        let _ = self.id.disconnect();
    }
}
