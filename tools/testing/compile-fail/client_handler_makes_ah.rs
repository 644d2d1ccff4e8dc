// SPDX-License-Identifier: GPL-2.0
// error: this function takes 3 arguments but 2 arguments were supplied

//! A handler makes an address handle the way that may sleep.

use kernel::prelude::*;
use rdma::{
    client::{
        work::{Completion, Handler},
        Ah, Pd, Work,
    },
    AhFields,
};

/// Has a protection domain.
pub struct Careless<'d>(Pd<'d>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        let _ = Ah::new(&work.handler().0, &AhFields::default());
    }
}
