// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `Timer<'d, Never>: DropsAnywhere` is not satisfied in `Careless<'d>`

//! A handler of completions owns a timer, which it could destroy: which waits for the timer's call.

use kernel::{prelude::*, sync::Arc};
use rdma::client::{
    timer::{OnTick, Timer},
    work::{Completion, Handler},
    Work,
};

/// Does nothing.
pub struct Never;

impl OnTick for Never {
    fn tick(&mut self) -> Option<u64> {
        None
    }
}

/// Has a timer.
pub struct Careless<'d>(Option<Arc<Timer<'d, Never>>>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        work.as_mut().handler_mut().0 = None;
    }
}
