// SPDX-License-Identifier: GPL-2.0
// error: no method named `look_up` found for reference

//! A handler of connections asks for a queue pair for datagrams.

use kernel::prelude::*;
use rdma::{
    client::qp::{Qp, Rts, Ud},
    MaySleep,
};
use rdma_cm::{
    handler::{Handler, Handling},
    Event, Tcp,
};

/// Asks when there is a route.
pub struct Asker<'d>(pub Qp<'d, Ud, Rts>);

impl<'d> Handler<'d, Tcp> for Asker<'d> {
    fn event(&self, id: &Handling<'_, 'd, Tcp>, _event: Event, _sleep: &MaySleep) -> Result {
        id.look_up(&self.0, b"which")
    }
}
