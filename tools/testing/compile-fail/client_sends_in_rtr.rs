// SPDX-License-Identifier: GPL-2.0
// error: the method `post_send` exists for reference `&
// error: Rtr>`, but its trait bounds were not satisfied

//! A request to send is posted before the queue pair is ready to send.

use kernel::prelude::*;
use rdma::client::{
    op::RcOp,
    qp::{Qp, Rc, Rtr},
    work::Handler,
    Work,
};

/// Sends too early.
pub fn send<'d, H: Handler<'d>>(qp: &Qp<'d, Rc, Rtr>, work: Pin<KBox<Work<'d, H>>>) {
    let _ = qp.post_send(work, RcOp::Send);
}
