// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `rdma::client::Qp<'d, rdma::client::qp::Rc, rdma::client::qp::Rts>: DropsAnywhere` is not satisfied in `Careless<'d>`

//! A timer, which may call in a hard interrupt, owns a queue pair, which it could destroy.

use rdma::client::{
    qp::{Qp, Rc, Rts},
    timer::OnTick,
};

/// Has a queue pair.
pub struct Careless<'d>(Option<Qp<'d, Rc, Rts>>);

impl<'d> OnTick for Careless<'d> {
    fn tick(&mut self) -> Option<u64> {
        self.0 = None;
        None
    }
}
