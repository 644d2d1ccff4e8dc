// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! A queue pair has the protection domain of one device and the completion queue of another.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    client::{
        qp::{Config, Rc, Reset},
        Cq, Pd, Qp,
    },
    MaySleep,
};

/// Mixes two devices.
pub fn mix<'a, 'b>(pd: &Pd<'a>, cq: &Arc<Cq<'b>>, sleep: &MaySleep) -> Result<Qp<'a, Rc, Reset>> {
    let config = Config {
        send_cq: cq,
        recv_cq: cq,
        max_sends: 1,
        max_receives: 1,
        max_pieces: 1,
        srq: None,
        events: None,
    };
    Qp::new(pd, config, sleep)
}
