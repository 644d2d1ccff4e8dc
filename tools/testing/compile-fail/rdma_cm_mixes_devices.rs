// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! A queue pair of one device is used for an identifier of another.

use kernel::prelude::*;
use rdma::{
    client::{
        qp::{Reset, Ud},
        Qp,
    },
    MaySleep,
};
use rdma_cm::datagram::{Lookup, Route};

/// Looks a queue pair up.
pub fn look<'a, 'b>(
    route: Route<'a>,
    qp: Qp<'b, Ud, Reset>,
    sleep: &MaySleep,
) -> Result<Lookup<'a>> {
    route.begin(qp, b"", sleep)
}
