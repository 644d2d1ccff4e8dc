// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `rdma::client::event::Registration<'d, Deaf>: DropsAnywhere` is not satisfied in `Careless<'d>`

//! A handler of completions owns a registration for a device's events. Dropping that waits for the handlers of events.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    client::{
        event::{OnDeviceEvent, PortEvent, Registration},
        work::{Completion, Handler},
        Work,
    },
    MaySleep,
};

/// Does nothing.
pub struct Deaf;

impl OnDeviceEvent for Deaf {
    fn device_event(&self, _event: PortEvent, _sleep: &MaySleep) {}
}

/// Has a listener.
pub struct Careless<'d>(Option<Arc<Registration<'d, Deaf>>>);

impl<'d> Handler<'d> for Careless<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        work.as_mut().handler_mut().0 = None;
    }
}
