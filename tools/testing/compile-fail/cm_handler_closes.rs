// SPDX-License-Identifier: GPL-2.0
// crate: rdma_user_cm
// error: method `event` has 3 parameters but the declaration in trait `rdma_user_cm::Handler::event` has 2

//! Nobody destroys an identifier in its handler: that takes a token for sleeping, which handlers have not.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex},
};
use rdma::MaySleep;
use rdma_user_cm::{Event, Handler, Id, Request};

/// The identifiers of requests.
#[pin_data]
pub struct Own {
    #[pin]
    accepted: Mutex<Option<Id<Own>>>,
}

impl Handler for Own {
    fn event(this: ArcBorrow<'_, Self>, _event: &Event<'_>, sleep: &MaySleep) {
        if let Some(id) = &*this.accepted.lock() {
            id.close(sleep);
        }
    }

    fn request(this: ArcBorrow<'_, Self>, request: Request<'_>) {
        let own: Arc<Self> = this.into();
        if let Ok(id) = request.adopt(own.clone()) {
            *own.accepted.lock() = Some(id);
        }
    }
}

/// Without any.
pub fn own() -> impl PinInit<Own> {
    pin_init!(Own {
        accepted <- new_mutex!(None),
    })
}
