// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `rdma::client::Srq<'d>: DropsAnywhere` is not satisfied in `Careless<'d>`

//! A handler of completions owns a shared receive queue, which it could destroy.

use kernel::{prelude::*, sync::Arc};
use rdma::client::{
    work::{Completion, Handler},
    Srq, Work,
};

/// Has a shared receive queue.
pub struct Careless<'d>(Option<Arc<Srq<'d>>>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        work.as_mut().handler_mut().0 = None;
    }
}
