// SPDX-License-Identifier: GPL-2.0

//! Connected queue pairs of `rdma_cm` (`<rdma/rdma_cm.h>`).

use kernel::prelude::*;
use rdma::MaySleep;
use rdma_cm::Connection;

/// A connected queue pair.
pub(crate) type ConnectedQp<'d> = Connection<'d>;

/// Whether the peer has closed the connection.
pub(crate) fn is_disconnected(qp: &ConnectedQp<'_>, sleep: &MaySleep) -> bool {
    // The other errors are events that end a connection too.
    qp.wait_disconnected(0, sleep) != Err(ETIMEDOUT)
}
