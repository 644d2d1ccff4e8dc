// SPDX-License-Identifier: GPL-2.0

//! Connections (RC): the TCP port space.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::prelude::*;
use kernel_ext::net::ns::NetNamespace;
use rdma::{
    bindings::rdma_conn_param,
    client::{
        qp::{Init, Qp, Rc, Reset, Rtr, Rts},
        Device,
    },
    MaySleep,
};

use crate::{
    calls::Asked, id::Id, space::Tcp, Address, Ece, Event, Offer, Options, Reason, Rejection,
    TIMEOUT_MS,
};

/// The parameters of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    /// The private data for the peer: up to 56 bytes from the active side, 196 from the passive side.
    pub private_data: &'a [u8],
    /// The number of RDMA READs and atomics that the peer may have outstanding.
    pub responder_resources: u8,
    /// The number of RDMA READs and atomics that this side may have outstanding.
    pub initiator_depth: u8,
    /// The number of retries of an unacknowledged packet, up to 7. Only the active side sets it.
    pub retries: u8,
    /// The number of retries after an RNR NAK, up to 6; 7 for unlimited.
    pub rnr_retries: u8,
    /// Options of a device's vendor.
    pub ece: Ece,
}

impl Default for Params<'_> {
    /// No private data and no options, one RDMA READ or atomic each way, and as many retries as there can be.
    fn default() -> Self {
        Self {
            private_data: &[],
            responder_resources: 1,
            initiator_depth: 1,
            retries: 7,
            rnr_retries: 7,
            ece: Ece::NONE,
        }
    }
}

impl Params<'_> {
    pub(crate) fn to_raw(self, qp_num: u32, has_srq: bool) -> Result<Asked> {
        let param = rdma_conn_param {
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
        };
        Ok(Asked {
            param,
            ece: self.ece,
        })
    }
}

/// A route from a device to a peer.
pub struct Route<'d> {
    id: Id<'d, Tcp>,
}

impl<'d> Route<'d> {
    /// Resolves an address and the route to it, in a network namespace.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the route does not begin at this device, `ETIMEDOUT`, and those of the connection manager.
    pub fn resolve(
        device: &Device<'d>,
        net: &NetNamespace,
        source: Option<&Address>,
        destination: &Address,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let options = Options::default();
        Self::resolve_with(device, net, &options, (source, destination), sleep)
    }

    /// As [`Self::resolve`], with options, from a source to a destination.
    ///
    /// # Errors
    ///
    /// Those of [`Self::resolve`], and `EINVAL` for options that are out of range.
    pub fn resolve_with(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        ends: (Option<&Address>, &Address),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::new(device, net, options, sleep)?;
        id.resolve(ends, TIMEOUT_MS, sleep)?;
        Ok(Self { id })
    }

    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.id.modify(qp, sleep)
    }

    /// Connects, and waits for the connection: see [`Self::begin`] and [`Connecting::finish`].
    ///
    /// # Errors
    ///
    /// The errors of these two.
    pub fn connect(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<(Connection<'d>, KVec<u8>)> {
        self.begin(qp, params, sleep)?.finish(sleep)
    }

    /// Sends a connection request (REQ) to the peer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
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

/// A connection that waits for the REP of the peer.
pub struct Connecting<'d> {
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Rc, Init>,
    id: Id<'d, Tcp>,
}

impl<'d> Connecting<'d> {
    /// Waits for the peer's reply (REP). Returns the connection, and the private data of the reply.
    ///
    /// # Errors
    ///
    /// `ECONNREFUSED` if the peer rejects the request, `ETIMEDOUT`, and those of the connection manager and of the driver.
    pub fn finish(self, sleep: &MaySleep) -> Result<(Connection<'d>, KVec<u8>)> {
        let offer = self.reply(sleep)?;
        self.complete(offer, sleep)
    }

    /// Waits for the peer's reply (REP), or for its rejection, with the reason and the private data.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT`, and those of the connection manager and of the driver.
    pub fn answer(self, sleep: &MaySleep) -> Result<Result<(Connection<'d>, KVec<u8>), Rejection>> {
        let (answer, _) = self.id.expect(TIMEOUT_MS, sleep, |event| match event {
            Event::ConnectResponse(offer) => Ok(Ok(offer)),
            Event::Rejected(rejection) => Ok(Err(rejection)),
            other => Err(other),
        })?;
        match answer {
            Ok(offer) => self.complete(offer, sleep).map(Ok),
            Err(rejection) => Ok(Err(rejection)),
        }
    }

    fn reply(&self, sleep: &MaySleep) -> Result<Offer> {
        let (offer, _) = self.id.expect(TIMEOUT_MS, sleep, |event| match event {
            Event::ConnectResponse(offer) => Ok(offer),
            other => Err(other),
        })?;
        Ok(offer)
    }

    /// Connects the queue pair with what the peer has replied.
    fn complete(self, offer: Offer, sleep: &MaySleep) -> Result<(Connection<'d>, KVec<u8>)> {
        let qp: Qp<'d, Rc, Rtr> = self.id.modify(self.qp, sleep)?;
        let qp: Qp<'d, Rc, Rts> = self.id.modify(qp, sleep)?;
        // This tells the peer that this side is ready (RTU).
        self.id.accept(None)?;
        Ok((Connection { qp, id: self.id }, offer.private_data))
    }
}

/// A listener for connection requests, on an address of a device.
pub struct Listener<'d> {
    id: Id<'d, Tcp>,
}

impl<'d> Listener<'d> {
    /// Starts listening, in a network namespace. `backlog` is the maximum number of pending requests.
    ///
    /// # Errors
    ///
    /// `ENODEV` for an address of another device, `EADDRINUSE`, and those of the connection manager.
    pub fn new(
        device: &Device<'d>,
        net: &NetNamespace,
        address: &Address,
        backlog: u16,
        sleep: &MaySleep,
    ) -> Result<Self> {
        Self::with_options(device, net, &Options::default(), (address, backlog), sleep)
    }

    /// As [`Self::new`], with options; an address and a backlog.
    ///
    /// # Errors
    ///
    /// Those of [`Self::new`], and `EINVAL` for options that are out of range.
    pub fn with_options(
        device: &Device<'d>,
        net: &NetNamespace,
        options: &Options,
        (address, backlog): (&Address, u16),
        sleep: &MaySleep,
    ) -> Result<Self> {
        let id = Id::listening(device, net, options, (address, backlog), sleep)?;
        Ok(Self { id })
    }

    /// The local port. If the address had port 0, this is the port that was chosen.
    pub fn port(&self) -> u16 {
        self.id.source_port()
    }

    /// Waits for the next connection request.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if there is none within `timeout_ms` milliseconds.
    pub fn next(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Request<'d>> {
        let (offer, id) = self.id.expect(timeout_ms, sleep, |event| match event {
            Event::ConnectRequest(offer) => Ok(offer),
            other => Err(other),
        })?;
        let id = id.ok_or(EIO)?;
        Ok(Request { id, offer })
    }
}

/// A connection request of a peer. Dropping it rejects the request.
pub struct Request<'d> {
    id: Id<'d, Tcp>,
    offer: Offer,
}

impl<'d> Request<'d> {
    /// The private data of the peer: 56 bytes, padded at the end.
    pub fn private_data(&self) -> &[u8] {
        &self.offer.private_data
    }

    /// What the peer asks for.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Initialises a queue pair for the connection.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn init(&self, qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        self.id.modify(qp, sleep)
    }

    /// Accepts the request, and waits for the connection: see [`Self::begin`] and [`Accepting::finish`].
    ///
    /// # Errors
    ///
    /// The errors of these two.
    pub fn accept(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<Connection<'d>> {
        self.begin(qp, params, sleep)?.finish(sleep)
    }

    /// Accepts the request: [`Self::ready`] and [`Ready::accept`].
    ///
    /// # Errors
    ///
    /// The errors of these two.
    pub fn begin(
        self,
        qp: Qp<'d, Rc, Init>,
        params: &Params<'_>,
        sleep: &MaySleep,
    ) -> Result<Accepting<'d>> {
        self.ready(qp, sleep)?.accept(params, sleep)
    }

    /// Moves a queue pair to RTS for the peer, without sending the reply.
    ///
    /// # Errors
    ///
    /// Those of the connection manager and of the driver.
    pub fn ready(self, qp: Qp<'d, Rc, Init>, sleep: &MaySleep) -> Result<Ready<'d>> {
        let qp: Qp<'d, Rc, Rtr> = self.id.modify(qp, sleep)?;
        let qp: Qp<'d, Rc, Rts> = self.id.modify(qp, sleep)?;
        Ok(Ready { qp, id: self.id })
    }

    /// Rejects the request, with private data of up to 148 bytes.
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn reject(self, why: &[u8], sleep: &MaySleep) -> Result {
        self.reject_for(Reason::CONSUMER_DEFINED, why, sleep)
    }

    /// Rejects the request for a reason, with private data of up to 148 bytes.
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn reject_for(self, reason: Reason, why: &[u8], sleep: &MaySleep) -> Result {
        sleep.check();
        self.id.reject(reason, why)
    }
}

/// A connection request with a queue pair in RTS. Dropping it rejects the request.
pub struct Ready<'d> {
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d, Tcp>,
}

impl<'d> core::ops::Deref for Ready<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.qp
    }
}

impl<'d> Ready<'d> {
    /// Accepts the request.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
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

/// An accepted connection that waits for the RTU of the peer.
pub struct Accepting<'d> {
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d, Tcp>,
}

impl<'d> Accepting<'d> {
    /// Waits until the peer has confirmed the connection (RTU), or has already closed it (DREQ).
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if the peer does not respond, and those of the connection manager.
    pub fn finish(self, sleep: &MaySleep) -> Result<Connection<'d>> {
        self.id.expect_established(TIMEOUT_MS, sleep)?;
        let Self { qp, id } = self;
        Ok(Connection { qp, id })
    }
}

/// A connection with its queue pair. Dropping it disconnects, and waits until the handlers of all posted requests have run.
pub struct Connection<'d> {
    /// The queue pair, which is dropped before the identifier.
    qp: Qp<'d, Rc, Rts>,
    id: Id<'d, Tcp>,
}

impl<'d> core::ops::Deref for Connection<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.qp
    }
}

impl Connection<'_> {
    /// Closes the connection (DREQ), or replies to the peer that has closed it (DREP). The posted requests are flushed.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a closed connection, and those of the connection manager.
    pub fn disconnect(&self, sleep: &MaySleep) -> Result {
        sleep.check();
        self.id.disconnect()
    }

    /// Waits until the connection is closed by either side, or the device is removed.
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if that does not happen within `timeout_ms` milliseconds.
    pub fn wait_disconnected(&self, timeout_ms: u32, sleep: &MaySleep) -> Result {
        let ended = self.id.expect(timeout_ms, sleep, |event| match event {
            Event::Disconnected | Event::DeviceRemoval => Ok(()),
            other => Err(other),
        });
        ended.map(drop)
    }

    /// Waits for the next event of the connection, of any type: such as [`Event::Disconnected`], [`Event::TimewaitExit`],
    /// [`Event::AddrChange`].
    ///
    /// # Errors
    ///
    /// `ETIMEDOUT` if there is none within `timeout_ms` milliseconds.
    pub fn next_event(&self, timeout_ms: u32, sleep: &MaySleep) -> Result<Event> {
        self.id.next(timeout_ms, sleep).map(|(event, _)| event)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        // It may be disconnected already.
        let _ = self.id.disconnect();
    }
}
