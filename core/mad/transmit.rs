// SPDX-License-Identifier: GPL-2.0

//! Posting MADs to the queue pair: as many as its send queue holds; the others wait in order.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::sync::atomic::Ordering;

use kernel::{prelude::*, sync::Arc};
use rdma::core::mad::{qp::SpecialQp, send::Addressed, trace};

use super::{
    outbox::Outbox,
    state::{traced, Layer, SendMad},
};

/// Posts a MAD to the queue pair.
fn post(
    qp: &Arc<SpecialQp<Layer>>,
    outbox: &mut Outbox,
    send: Addressed<SendMad>,
) -> Result<(), (Error, Addressed<SendMad>)> {
    send.sequence.store(outbox.next_sequence, Ordering::Relaxed);
    outbox.next_sequence = outbox.next_sequence.wrapping_add(1);
    qp.post_send(send)
}

/// Sends a MAD, now or when the send queue has room. Any context.
///
/// # Errors
///
/// `ENOMEM`, `ENODEV` while the port closes, `EINVAL` without an address, and errors of the driver.
pub(super) fn transmit(send: Addressed<SendMad>) -> Result {
    let qp = send.agent.qp.clone();
    let mut outbox = qp.queue.outbox.lock();
    if outbox.in_flight >= outbox.limit {
        return outbox.push(send);
    }
    trace::ib_mad_ib_send_mad(&traced(&send, false), &send.agent.body);
    match post(&qp, &mut outbox, send) {
        Ok(()) => outbox.in_flight = outbox.in_flight.saturating_add(1),
        Err((error, send)) => {
            drop(outbox);
            drop(send);
            return Err(error);
        }
    }
    Ok(())
}

/// Posts waiting MADs after a completion. Returns one that could not be posted; the caller then calls this again.
pub(super) fn post_waiting(qp: &Arc<SpecialQp<Layer>>) -> Option<Addressed<SendMad>> {
    let mut outbox = qp.queue.outbox.lock();
    while outbox.in_flight < outbox.limit {
        let send = outbox.pop()?;
        trace::ib_mad_send_done_resend(&traced(&send, false), &send.agent.body);
        if let Err((_, send)) = post(qp, &mut outbox, send) {
            return Some(send);
        }
        outbox.in_flight = outbox.in_flight.saturating_add(1);
    }
    None
}

/// Counts a send completion.
pub(super) fn left(qp: &SpecialQp<Layer>) {
    let mut outbox = qp.queue.outbox.lock();
    outbox.in_flight = outbox.in_flight.saturating_sub(1);
}

/// Posts a MAD again that was flushed because another one had failed; returns it where it is not posted.
pub(super) fn post_again(
    qp: &Arc<SpecialQp<Layer>>,
    send: Addressed<SendMad>,
) -> Result<(), Addressed<SendMad>> {
    let mut outbox = qp.queue.outbox.lock();
    let was_behind = send.sequence.load(Ordering::Relaxed) < outbox.repost_before;
    if !was_behind {
        return Err(send);
    }
    trace::ib_mad_error_handler(&traced(&send, true), &send.agent.body);
    post(qp, &mut outbox, send).map_err(|(_, send)| send)
}

/// The queue pair has recovered: MADs flushed until now are posted again.
pub(super) fn recovered(qp: &SpecialQp<Layer>) {
    let mut outbox = qp.queue.outbox.lock();
    outbox.repost_before = outbox.next_sequence;
}
