// SPDX-License-Identifier: GPL-2.0
// error: the method `post_receive` exists for reference `&
// error: Reset>`, but its trait bounds were not satisfied

//! A request to receive is posted before the queue pair is initialised.

use kernel::prelude::*;
use rdma::client::{
    qp::{Qp, Rc, Reset},
    work::Handler,
    Work,
};

/// Receives too early.
pub fn receive<'d, H: Handler<'d>>(qp: &Qp<'d, Rc, Reset>, work: Pin<KBox<Work<'d, H>>>) {
    let _ = qp.post_receive(work);
}
