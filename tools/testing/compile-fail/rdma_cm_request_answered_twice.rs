// SPDX-License-Identifier: GPL-2.0
// error: use of moved value: `request`

//! A request is rejected after it was accepted.

use kernel::prelude::*;
use rdma::{
    client::{
        qp::{Rts, Ud},
        Qp,
    },
    MaySleep,
};
use rdma_cm::datagram::Request;

/// Accepts, and thinks again.
pub fn answer<'d>(request: Request<'d>, qp: &Qp<'d, Ud, Rts>, sleep: &MaySleep) -> Result {
    request.accept(qp, b"yes", sleep)?;
    request.reject(b"no", sleep)
}
