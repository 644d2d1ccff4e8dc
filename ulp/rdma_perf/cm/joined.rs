// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that are connected by `rdma_cm`.

use kernel::prelude::*;
use rdma::MaySleep;
use rdma_cm::Connection;

/// A queue pair that is connected.
pub(crate) type Joined<'d> = Connection<'d>;

/// Whether the peer has ended the connection.
pub(crate) fn is_left(qp: &Joined<'_>, sleep: &MaySleep) -> bool {
    // Other errors are events that mean the same.
    qp.wait_disconnected(0, sleep) != Err(ETIMEDOUT)
}
