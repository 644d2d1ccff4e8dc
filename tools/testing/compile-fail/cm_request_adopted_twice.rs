// SPDX-License-Identifier: GPL-2.0
// crate: rdma_user_cm
// error: use of moved value: `request`

//! A request for a connection is adopted once.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, ArcBorrow, Mutex},
};
use rdma_user_cm::{Event, Handler, Id, Request};

/// The identifiers of requests.
#[pin_data]
pub struct Own {
    #[pin]
    accepted: Mutex<Option<Id<Own>>>,
}

impl Handler for Own {
    fn event(this: ArcBorrow<'_, Self>, _event: &Event<'_>) {
        if let Some(id) = &*this.accepted.lock() {
            id.close_later();
        }
    }

    fn request(this: ArcBorrow<'_, Self>, request: Request<'_>) {
        let own: Arc<Self> = this.into();
        let _ = request.adopt(own.clone());
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
