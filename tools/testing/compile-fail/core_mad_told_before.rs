// SPDX-License-Identifier: GPL-2.0
// error: cannot move out of `posted` because it is borrowed

//! The core asks for the address of a MAD that its client has back, and whose address handle the client may have destroyed.

use rdma::{
    core::mad::{
        agent::{tell_sent, OfAgent},
        send::Posted,
    },
    MaySleep,
};

/// Tells the client, and then asks.
pub fn end<S: OfAgent>(posted: Posted<S>, sleep: &MaySleep) -> bool {
    let body = posted.posted();
    tell_sent(posted, 0, 0, sleep);
    body.destination().is_some()
}
