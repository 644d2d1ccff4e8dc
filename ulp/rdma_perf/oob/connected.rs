// SPDX-License-Identifier: GPL-2.0

//! Connected queue pairs without a connection manager.

use rdma::{
    client::qp::{Qp, Rc, Rts},
    MaySleep,
};

/// A queue pair in RTS.
pub(crate) struct ConnectedQp<'d>(Qp<'d, Rc, Rts>);

impl<'d> ConnectedQp<'d> {
    /// Wraps a queue pair in RTS.
    pub(super) fn new(qp: Qp<'d, Rc, Rts>) -> Self {
        Self(qp)
    }
}

impl<'d> core::ops::Deref for ConnectedQp<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.0
    }
}

/// Whether the peer has closed the connection: never, as there is no connection manager to tell.
pub(crate) fn is_disconnected(_qp: &ConnectedQp<'_>, _sleep: &MaySleep) -> bool {
    false
}
