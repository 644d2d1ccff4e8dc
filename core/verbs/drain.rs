// SPDX-License-Identifier: GPL-2.0

//! Draining a queue pair: waiting until all its work requests have completed and their handlers have run.
//!
//! The queue pair is moved to the error state, so that posted work requests are flushed. A marker request that is then
//! posted completes after all others. With a shared receive queue, the function waits for the LAST_WQE_REACHED event
//! and polls the completion queue instead.
//!
//! The completion queue must be one of `ib_alloc_cq`, with room for the marker, and nothing else may be posted during
//! the drain.
//!
//! Reference: InfiniBand Architecture Specification 1.7, volume 1, section 10.3.1.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_drain_qp`).

use kernel::prelude::*;
use kernel_ext::{bindings as c, export::export};
use rdma::{
    core::{qp::QpAttr, trace, Cq, Qp},
    MaySleep,
};

use crate::{cq::poll, verbs::qp};

/// Timeout for the LAST_WQE_REACHED event, in milliseconds.
const LAST_WQE_TIMEOUT_MS: u32 = 60_000;

fn to_error(qp: &Qp, sleep: &MaySleep) -> Result {
    let mut attr = QpAttr::to_state(c::IB_QPS_ERR);
    qp::modify(qp, attr.change(c::IB_QP_STATE), None, sleep)
}

/// Calls `flush` with the polling function of a queue, if its client polls.
fn flush(cq: Option<&Cq>, flush: impl FnOnce(Option<&dyn Fn()>) -> Result) -> Result {
    let direct = cq.filter(|cq| cq.poll_ctx() == c::IB_POLL_DIRECT);
    match direct.and_then(Cq::of_client) {
        None => flush(None),
        Some(cq) => flush(Some(&|| {
            poll::process_direct(cq, None);
        })),
    }
}

fn flush_sends(qp: &Qp, sleep: &MaySleep) -> Result {
    to_error(qp, sleep)?;
    flush(qp.send_cq(), |poll| qp.driver_flush_sends(poll, sleep))
}

fn flush_receives(qp: &Qp, sleep: &MaySleep) -> Result {
    to_error(qp, sleep)?;
    flush(qp.recv_cq(), |poll| qp.driver_flush_receives(poll, sleep))
}

/// Waits for the LAST_WQE_REACHED event of a shared receive queue, and polls the completion queue until it is empty, or
/// once for each of its entries.
fn flush_shared(qp: &Qp, sleep: &MaySleep) -> Result {
    to_error(qp, sleep)?;
    let cq = qp.srq().and_then(|srq| srq.cq()).or(qp.recv_cq());
    let cq = cq.ok_or(EINVAL)?;
    if !qp
        .last_wqe_reached()
        .wait_timeout(LAST_WQE_TIMEOUT_MS, sleep)
    {
        return Ok(());
    }
    // A client that polls itself continues to do so.
    let Some(cq) = cq.of_client() else {
        return Ok(());
    };
    let mut left = cq.cqe();
    while left > 0 {
        let polled = poll::process_direct(cq, Some(left));
        if polled == 0 {
            break;
        }
        left = left.saturating_sub(polled);
    }
    Ok(())
}

fn report(what: &str, result: Result) {
    if let Err(error) = result {
        kernel::pr_warn_once!("failed to drain {} queue: {}\n", what, error.to_errno());
    }
}

/// Drains the send queue. Process context.
#[export]
fn ib_drain_sq(qp: &Qp, sleep: &MaySleep) {
    if qp.driver_drain_sq(sleep).is_none() {
        report("send", flush_sends(qp, sleep));
    }
    qp.send_cq().inspect(|cq| trace::cq_drain_complete(cq));
}

/// Drains the receive queue. Process context.
#[export]
fn ib_drain_rq(qp: &Qp, sleep: &MaySleep) {
    if qp.driver_drain_rq(sleep).is_none() {
        report("recv", flush_receives(qp, sleep));
    }
    qp.recv_cq().inspect(|cq| trace::cq_drain_complete(cq));
}

/// Drains both queues. Process context.
#[export]
fn ib_drain_qp(qp: &Qp, sleep: &MaySleep) {
    ib_drain_sq(qp, sleep);
    if qp.srq().is_some() {
        report("shared recv", flush_shared(qp, sleep));
    } else {
        ib_drain_rq(qp, sleep);
    }
}
