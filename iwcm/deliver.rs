// SPDX-License-Identifier: GPL-2.0

//! Events, one after the other: what they do to an identifier, and telling them to its client.
//!
//! C header: `include/rdma/iw_cm.h`.

use kernel::{impl_has_work, sync::Arc};
use kernel_ext::sleepable::{Sleepable, SleepableWork};
use rdma::{
    core::iw::{
        event::{Event, Kind},
        id::{offer, tell},
    },
    MaySleep,
};

use crate::{
    end::{end, refuse},
    id::CmId,
    portmap,
    states::{Action, Input},
};

impl_has_work! {
    impl HasWork<Sleepable<Self>> for CmId { self.work }
}

impl SleepableWork for CmId {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        if let Some(event) = this.next_event() {
            deliver(&this, event, sleep);
        }
    }
}

/// What an event is for the table of states.
fn input_of(event: &Event) -> Input {
    match (event.kind, event.status) {
        (Kind::ConnectRequest, _) => Input::Request,
        (Kind::ConnectReply, 0) => Input::Replied,
        (Kind::ConnectReply, _) => Input::Refused,
        (Kind::Established, _) => Input::Connected,
        (Kind::Disconnect, _) => Input::PeerDisconnected,
        (Kind::Close, _) => Input::Closed,
    }
}

fn deliver(id: &Arc<CmId>, mut event: Event, sleep: &MaySleep) {
    let input = input_of(&event);
    match id.advance(input) {
        Some(Action::Offer) => offer_peer(id, event, sleep),
        Some(Action::Tell | Action::ReleaseAndTell) => {
            if input == Input::Replied {
                id.body.set_mapped_ends(&event.local, &event.remote);
                (event.local, event.remote) = id.body.ends();
            }
            if let Some(given_up) = tell(id, &mut event, sleep) {
                end(&given_up, sleep);
            }
        }
        None if input == Input::Request => refuse(id, &event, sleep),
        _ => {}
    }
}

/// Makes an identifier for a peer that wants to connect, and tells the client of the listener.
fn offer_peer(listener: &Arc<CmId>, mut event: Event, sleep: &MaySleep) {
    // Without memory the driver keeps the peer waiting until it gives up.
    let Ok(id) = listener.for_request(&event) else {
        return;
    };
    let listens_at = listener.body.mapped_local();
    let (mut local, _) = listener.body.ends();
    let remote = portmap::remote_of(&listens_at, &event.remote);
    id.body.set_mapped_ends(&event.local, &event.remote);
    if let Some(remote) = remote {
        if listens_at.is_any() {
            local = local.with_ip_of(&event.local);
        }
        event.local = local;
        event.remote = remote;
    }
    id.body.set_ends(&local, &event.remote);
    if let Some(given_up) = offer(&id, &mut event, sleep) {
        end(&given_up, sleep);
    }
}
