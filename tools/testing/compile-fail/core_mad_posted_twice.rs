// SPDX-License-Identifier: GPL-2.0
// error: use of moved value: `send`

//! The core posts one MAD to two queue pairs, of which each would complete it.

use kernel::sync::Arc;
use rdma::core::mad::{
    qp::{MadLayer, SpecialQp},
    send::Addressed,
};

/// Posts it twice.
pub fn post<L: MadLayer>(qps: [&Arc<SpecialQp<L>>; 2], send: Addressed<L::Send>) {
    let [first, second] = qps;
    let _ = first.post_send(send);
    let _ = second.post_send(send);
}
