// SPDX-License-Identifier: GPL-2.0

//! The way to the queue pair: as many MADs as it has room for are with it, the others wait in their order.

use core::sync::atomic::Ordering;

use kernel::{prelude::*, sync::Arc};
use rdma::core::mad::{qp::SpecialQp, trace};

use super::state::{Layer, Outbox, SendMad};

/// Gives a MAD to the queue pair.
fn post(qp: &Arc<SpecialQp<Layer>>, outbox: &mut Outbox, send: &Arc<SendMad>) -> Result {
    send.sequence.store(outbox.next_sequence, Ordering::Relaxed);
    outbox.next_sequence = outbox.next_sequence.wrapping_add(1);
    qp.post_send(send)
}

/// Sends a MAD, now or when the queue pair has room. Any context.
///
/// # Errors
///
/// `ENOMEM`, `ENODEV` where the port goes, `EINVAL` without an address, and what the driver answers.
pub(super) fn transmit(send: &Arc<SendMad>) -> Result {
    let qp = &send.agent.qp;
    let mut outbox = qp.queue.outbox.lock();
    if outbox.in_flight >= outbox.limit {
        return outbox.push(send);
    }
    trace::ib_mad_ib_send_mad(&send.traced(false), &send.agent.body);
    post(qp, &mut outbox, send)?;
    outbox.in_flight = outbox.in_flight.saturating_add(1);
    Ok(())
}

/// A MAD has left the queue pair: gives it those that wait. Returns one that it does not take; then this is to be called
/// again.
pub(super) fn post_waiting(qp: &Arc<SpecialQp<Layer>>) -> Option<Arc<SendMad>> {
    let mut outbox = qp.queue.outbox.lock();
    while outbox.in_flight < outbox.limit {
        let send = outbox.pop()?;
        trace::ib_mad_send_done_resend(&send.traced(false), &send.agent.body);
        if post(qp, &mut outbox, &send).is_err() {
            return Some(send);
        }
        outbox.in_flight = outbox.in_flight.saturating_add(1);
    }
    None
}

/// The completion of a MAD has come.
pub(super) fn left(qp: &SpecialQp<Layer>) {
    let mut outbox = qp.queue.outbox.lock();
    outbox.in_flight = outbox.in_flight.saturating_sub(1);
}

/// Gives a MAD to the queue pair again that it has flushed because another one had failed. Says whether it did.
pub(super) fn post_again(qp: &Arc<SpecialQp<Layer>>, send: &Arc<SendMad>) -> bool {
    let mut outbox = qp.queue.outbox.lock();
    let was_behind = send.sequence.load(Ordering::Relaxed) < outbox.again_before;
    if !was_behind {
        return false;
    }
    trace::ib_mad_error_handler(&send.traced(true), &send.agent.body);
    post(qp, &mut outbox, send).is_ok()
}

/// The queue pair can send again: what it has flushed until now is to be posted again.
pub(super) fn recovered(qp: &SpecialQp<Layer>) {
    let mut outbox = qp.queue.outbox.lock();
    outbox.again_before = outbox.next_sequence;
}
