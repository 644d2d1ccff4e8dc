// SPDX-License-Identifier: GPL-2.0
// error: this function takes 2 arguments but 1 argument was supplied

//! A handler of completions, which may run in a softirq, makes a protection domain, which may sleep.

use kernel::prelude::*;
use rdma::client::{
    work::{Completion, Handler},
    Device, Pd, Work,
};

/// Has a device.
pub struct Careless<'d>(Device<'d>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        let _ = Pd::new(&work.handler().0);
    }
}
