// SPDX-License-Identifier: GPL-2.0
// error: the trait bound

//! A completion handler, which must not sleep, owns an endpoint of datagrams, whose end waits for handlers.

use kernel::prelude::*;
use rdma::client::{
    work::{Completion, Handler},
    Work,
};
use rdma_cm::datagram::Endpoint;

/// Ends an endpoint with its last message.
pub struct Last<'d>(pub Endpoint<'d>);

impl<'d> Handler<'d> for Last<'d> {
    fn done(_work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {}
}
