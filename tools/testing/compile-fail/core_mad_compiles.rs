// SPDX-License-Identifier: GPL-2.0

//! A MAD that is posted, as its client has lent it: it goes to a queue pair, and then back to the client.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    core::{
        callback::{Callback, Context, Handler},
        mad::{
            agent::{tell_sent, OfAgent},
            qp::{MadLayer, SpecialQp},
            send::{Addressed, Posted, PostedBody},
        },
        mr::PooledMr,
        rw::SigAttrsView,
    },
    MaySleep,
};

/// Posts it.
pub fn post<L: MadLayer>(qp: &Arc<SpecialQp<L>>, send: Addressed<L::Send>) -> bool {
    qp.post_send(send).is_ok()
}

/// Asks for its address while it is posted, and returns it.
pub fn end<S: OfAgent>(posted: Posted<S>, sleep: &MaySleep) -> u32 {
    let lid = posted.posted().destination().map_or(0, |to| to.lid);
    tell_sent(posted, 0, 0, sleep);
    lid
}

/// Any MAD of which one asks for the address is posted.
pub fn lid(send: PostedBody<'_>) -> Option<u32> {
    Some(send.destination()?.lid)
}

/// Joins a function with the context of the same call.
pub fn join<'a, F>(call: Handler<'a, F>, context: Context<'a>) -> Callback<F> {
    call.with(context)
}

/// Sets the attributes of a region that is borrowed exclusively.
pub fn sign(mr: &mut PooledMr<'_>, attrs: &SigAttrsView) -> Result {
    mr.set_sig_attrs(attrs)
}
