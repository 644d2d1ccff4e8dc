// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! A handler keeps a request that the connection manager destroys when the handler returns.

use kernel::{prelude::*, sync::Mutex};
use rdma::MaySleep;
use rdma_cm::{
    handler::{Handler, Request},
    Tcp,
};

/// Keeps the last request.
pub struct Keeper<'a, 'd>(pub Pin<KBox<Mutex<Option<Request<'a, 'd, Tcp>>>>>);

impl<'a: 'd, 'd> Handler<'d, Tcp> for Keeper<'a, 'd>
where
    Self: Send + Sync,
{
    fn request(&self, request: Request<'_, 'd, Tcp>, _sleep: &MaySleep) -> Result {
        *self.0.lock() = Some(request);
        Ok(())
    }
}
