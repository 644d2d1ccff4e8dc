// SPDX-License-Identifier: GPL-2.0
// error: no method named `into_err` found for reference `&QpRef<'_, rdma::client::qp::Rc, rdma::client::qp::Rts>`

//! A handler changes its queue pair, which may sleep: it sees a queue pair that can only be posted to.

use kernel::prelude::*;
use rdma::client::{
    qp::Rc,
    work::{Completion, Handler},
    Work,
};

/// Wants to stop.
pub struct Careless;

impl<'d> Handler<'d> for Careless {
    fn done(_work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if let Some(qp) = completion.sender::<Rc>() {
            let _ = qp.into_err();
        }
    }
}
