// SPDX-License-Identifier: GPL-2.0

//! What is done when the connection manager tells an event: it is put into the queue of the identifier's file.
//!
//! C header: `include/rdma/rdma_cm.h`.

use kernel::{
    prelude::*,
    sync::{Arc, ArcBorrow},
};
use rdma::bindings::RDMA_CM_EVENT_DEVICE_REMOVAL;
use rdma_user_cm::{Event, Handler, Request, Response};

use crate::{
    context::{self, Context},
    numbers,
    queue::Member,
    recipient::{About, Pending, Recipient},
};

impl Handler for Recipient {
    fn event(this: ArcBorrow<'_, Self>, event: &Event<'_>) {
        let this: Arc<Self> = this.into();
        // Who has not said what it calls the identifier, of a request that it has not answered, sees later that it is gone.
        if this.uid().is_some() {
            tell(&this, event);
        }
        if event.kind() == RDMA_CM_EVENT_DEVICE_REMOVAL {
            if let Some(context) = context::of(&this) {
                context.close_later();
            }
        }
    }

    fn request(this: ArcBorrow<'_, Self>, request: Request<'_>) {
        if this.take_backlog() && admit(this.into(), request).is_err() {
            this.give_backlog();
        }
    }
}

/// Adds an event. Without memory for it, it is lost.
fn tell(recipient: &Arc<Recipient>, event: &Event<'_>) {
    let about = match event.group() {
        None => About::Id,
        Some(number) => match recipient.group(number) {
            Some(group) => About::Group(group),
            None => return,
        },
    };
    if let Ok(pending) = Pending::new(recipient.clone(), about, |response| event.tell(response)) {
        recipient.home().add(pending);
    }
}

/// Makes the identifier of a request one of the file of who listens.
fn admit(listener: Arc<Recipient>, request: Request<'_>) -> Result {
    let channel = listener.home();
    let (number, place) = numbers::reserve::<Context>()?;
    let (id, member) = (number.get(), Member::new(number.get())?);
    let recipient = Recipient::new(id, 0, channel.clone())?;
    let tell = |response: &mut Response| request.event().tell(response);
    let pending = Pending::new(listener, About::Request(recipient.clone()), tell)?;
    let adopted = request.adopt(recipient.clone())?;
    let context = Context::new(adopted, recipient, number)?;
    channel.admit(member, Some(pending), || place.publish(context));
    Ok(())
}
