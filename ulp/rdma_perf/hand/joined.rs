// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are connected without a connection manager.

use rdma::{
    client::qp::{Qp, Rc, Rts},
    MaySleep,
};

/// A queue pair that is connected.
pub(crate) struct Joined<'d>(Qp<'d, Rc, Rts>);

impl<'d> Joined<'d> {
    /// A queue pair that was connected.
    pub(super) fn new(qp: Qp<'d, Rc, Rts>) -> Self {
        Self(qp)
    }
}

impl<'d> core::ops::Deref for Joined<'d> {
    type Target = Qp<'d, Rc, Rts>;

    fn deref(&self) -> &Qp<'d, Rc, Rts> {
        &self.0
    }
}

/// Whether the peer has ended the connection: nothing tells.
pub(crate) fn is_left(_qp: &Joined<'_>, _sleep: &MaySleep) -> bool {
    false
}
