// SPDX-License-Identifier: GPL-2.0

//! What a handler may do with its identifier: the calls that are made with the handler lock held.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::{prelude::*, types::NotThreadSafe};
use rdma::{
    client::qp::{Init, Qp, QpRef, Rc, Reset, Rtr, Rts, State, Ud},
    MaySleep,
};

use crate::{
    calls::{Asked, Calls},
    datagram::{self, Membership},
    Address, Params, PortSpace, Tcp, Udp, TIMEOUT_MS,
};

/// Moves a queue pair to RTS, for the peer that is known.
pub(super) fn connected<'d>(
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
pub struct Handling<'a, 'd, K>(pub(super) &'a Calls<'d, K>, pub(super) NotThreadSafe);

impl<'d, K: PortSpace> Handling<'_, 'd, K> {
    /// Begins to resolve the route to an address that is resolved. The handler gets `Event::RouteResolved` or `Event::RouteError`.
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

    /// Sends a connection request (REQ) to the peer, for a queue pair. The handler gets `Event::ConnectResponse`,
    /// `Event::Rejected`, `Event::Unreachable` or `Event::ConnectError`.
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

    /// Asks for the queue pair of the peer (SIDR), with private data of up to 180 bytes. The handler gets `Event::Found` or
    /// `Event::Unreachable`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for too much private data, and those of the connection manager.
    pub fn look_up<S: State>(&self, qp: &QpRef<'d, Ud, S>, private_data: &[u8]) -> Result {
        self.ask(datagram::params(private_data, qp.number())?)
    }

    /// Joins the multicast group of an address. The handler gets `Event::MulticastJoin`, with where to send to, or
    /// `Event::MulticastError`, and the number in it. Ending the identifier leaves its groups.
    ///
    /// # Errors
    ///
    /// Those of the connection manager.
    pub fn join(&self, group: &Address, membership: Membership, number: usize) -> Result {
        self.0.join(group, membership, number)
    }
}
