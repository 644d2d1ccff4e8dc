// SPDX-License-Identifier: GPL-2.0
// error: cannot move out of dereference of `rdma::client::Cq<'_>`

//! A handler of completions destroys a queue here and now, instead of dropping its reference of it.

use kernel::{prelude::*, sync::Arc};
use rdma::client::{
    work::{Completion, Handler},
    Cq, Work,
};

/// Has a completion queue.
pub struct Careless<'d>(Arc<Cq<'d>>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        let cq: &Cq<'d> = &work.handler().0;
        drop(**cq);
    }
}
