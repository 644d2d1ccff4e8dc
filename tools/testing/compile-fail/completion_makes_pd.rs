// SPDX-License-Identifier: GPL-2.0
// error: this function takes 2 arguments but 1 argument was supplied

//! A handler of completions, which may run in a softirq, makes a protection domain, which may sleep.

use kernel::prelude::*;
use rdma::verbs::{
    work::{Completion, Handler, Work},
    Device, Pd,
};

/// Has a device.
pub struct Careless(Device);

impl Handler for Careless {
    fn done(work: Pin<KBox<Work<Self>>>, _completion: &Completion<'_>) {
        let _ = Pd::new(&work.handler().0);
    }
}
