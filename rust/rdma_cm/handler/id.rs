// SPDX-License-Identifier: GPL-2.0

//! An identifier of a device, for who has it: the calls that wait for its handlers.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    client::qp::{Init, Qp, QpRef, Rc, Reset, Rts, State, Ud},
    MaySleep,
};

use super::{handling::connected, node::Node};
use crate::{
    datagram::{self, Membership},
    Address, Params, PortSpace, Reason, Tcp, Udp,
};

/// An identifier with its handler. Dropping it lets a work item destroy it.
///
/// Its calls fail with `ENXIO` once it has ended, with `EDEADLK` in its handler, and with the errors of the connection manager.
pub struct Id<'d, K, H: Send + Sync>(pub(super) Arc<Node<'d, K, H>>);

impl<'d, K, H: Send + Sync> Drop for Id<'d, K, H> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<'d, K: PortSpace, H: Send + Sync> Id<'d, K, H> {
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

impl<'d, H: Send + Sync> Id<'d, Tcp, H> {
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

impl<'d, H: Send + Sync> Id<'d, Udp, H> {
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

    /// Joins the multicast group of an address. The handler gets `Event::MulticastJoin`, with where to send to, or
    /// `Event::MulticastError`, and the number in it. Ending the identifier leaves its groups.
    ///
    /// # Errors
    ///
    /// As for all calls.
    pub fn join(
        &self,
        group: &Address,
        membership: Membership,
        number: usize,
        sleep: &MaySleep,
    ) -> Result {
        sleep.check();
        self.0.outside()?.join(group, membership, number)
    }

    /// Leaves the group that was joined last at an address. Nothing happens if there is none.
    ///
    /// # Errors
    ///
    /// As for all calls.
    pub fn leave(&self, group: &Address, sleep: &MaySleep) -> Result {
        sleep.check();
        self.0.outside()?.leave(group);
        Ok(())
    }
}
