// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `rdma::client::Qp<'d, rdma::client::qp::Rc, rdma::client::qp::Rts>: DropsAnywhere` is not satisfied in `Careless<'d>`

//! A handler of completions owns a queue pair, so it could destroy that: which waits for handlers.

use kernel::{prelude::*, sync::Arc};
use rdma::client::{
    qp::{Qp, Rc, Rts},
    work::{Completion, Handler},
    Work,
};

/// Has a queue pair.
pub struct Careless<'d>(Arc<Qp<'d, Rc, Rts>>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        drop(work.handler().0.clone());
    }
}
