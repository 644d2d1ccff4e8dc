// SPDX-License-Identifier: GPL-2.0

//! Draining a queue pair, then destroying it: `ib_drain_qp`, `ib_destroy_qp`.
//!
//! | requests | end of draining |
//! |---|---|
//! | of connections | the completion of a drain request, which is posted to each queue last; or the driver's own method |
//! | datagrams | their count is 0 |
//! | taken from an SRQ | the event [`QpEvent::LastWqeReached`](crate::QpEvent); then the completion queue is polled until it is empty, before and after the queue pair is destroyed |
//!
//! All resources for draining are allocated with the queue pair. If the device fails, the queue pair stays, and draining is
//! repeated later.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    ptr::{null, null_mut},
    sync::atomic::Ordering,
};

use kernel::{error::to_result, prelude::*, sync::Arc};
use kernel_ext::sync::rcu;
use rdma_bindings::{self as bindings, ib_qp, ib_qp_attr, ib_rdma_wr, ib_recv_wr};

use super::{drain_cqe::DrainCqe, Owner};
use crate::{
    abi::qp::QpAttrMask,
    client::{cq::PollGuard, deferred::Object},
    MaySleep, QpState,
};

/// The interval in milliseconds between two polls while a drain request is awaited.
const POLL_MS: u32 = 10;

/// The maximum wait for the last request of an SRQ, in units of [`POLL_MS`]: a minute, as in the core.
const LAST_WQE_WAITS: u32 = 6_000;

impl Owner<'_> {
    /// Flushes all requests, and waits until they are handled. Nothing can be posted from now on.
    ///
    /// # Errors
    ///
    /// Those of the driver. Then requests may still be under way.
    pub(super) fn drain(&self, sleep: &MaySleep) -> Result {
        self.shared.closing.store(true, Ordering::SeqCst);
        // Posters that have not seen the flag are in a critical section.
        rcu::synchronize_expedited(sleep);
        if !self.used.load(Ordering::Acquire) {
            return Ok(());
        }
        self.send_cq.while_not_polled(sleep, |send_cq| {
            if Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
                return self.drain_polled([send_cq, send_cq], sleep);
            }
            self.recv_cq.while_not_polled(sleep, |recv_cq| {
                self.drain_polled([send_cq, recv_cq], sleep)
            })
        })?;
        if self.srq.is_some() {
            self.recv_cq
                .exclusively(sleep, |cq| cq.empty(null(), sleep));
        }
        Ok(())
    }

    /// As [`Self::drain`], with other pollers excluded.
    fn drain_polled(&self, cqs: [&PollGuard<'_, '_>; 2], sleep: &MaySleep) -> Result {
        let raw = self.shared.raw.load(Ordering::Acquire);
        // SAFETY: By the type invariants `raw` is the queue pair.
        unsafe { end_all(raw) }?;
        if self.shared.is_counted() {
            self.wait_for_counted(cqs, sleep);
            // A datagram is received completely, or not at all: there is nothing to wait for.
            return Ok(());
        }
        self.drain_sends(raw, cqs, sleep)?;
        match &self.srq {
            Some(_) => self.wait_for_last_wqe(cqs, sleep),
            None => self.drain_receives(raw, cqs, sleep)?,
        }
        Ok(())
    }

    /// A drain request has no address handle, which a datagram needs. So datagrams are counted instead.
    fn wait_for_counted(&self, cqs: [&PollGuard<'_, '_>; 2], sleep: &MaySleep) {
        while self.shared.outstanding.load(Ordering::Acquire) != 0 {
            cqs.iter().for_each(|cq| cq.poll());
            sleep.sleep_ms(1);
        }
    }

    /// Whether the driver's own method can be used. It relies on polling by the core or by itself, so not where the client polls
    /// after notifications.
    fn may_driver_drain(&self) -> bool {
        !self.send_cq.is_notified() && !self.recv_cq.is_notified()
    }

    fn drain_sends(
        &self,
        raw: *mut ib_qp,
        cqs: [&PollGuard<'_, '_>; 2],
        sleep: &MaySleep,
    ) -> Result {
        // SAFETY: By the type invariants; the methods of a device are constant.
        if self.may_driver_drain() && unsafe { (*(*raw).device).ops.drain_sq.is_some() } {
            // SAFETY: By the type invariants; queue pairs are drained in process context.
            unsafe { bindings::ib_drain_sq(raw) };
            return Ok(());
        }
        let last = &self.drain.sends;
        let mut request: ib_rdma_wr = pin_init::zeroed();
        request.wr.__bindgen_anon_1.wr_cqe = last.as_cqe();
        request.wr.send_flags = bindings::IB_SEND_SIGNALED;
        request.wr.opcode = bindings::IB_WR_RDMA_WRITE;
        let mut bad = null();
        // SAFETY: By the type invariants; the handler is valid until the completion.
        to_result(unsafe { bindings::ib_post_send(raw, &request.wr, &mut bad) })?;
        wait(last, cqs, sleep);
        Ok(())
    }

    fn drain_receives(
        &self,
        raw: *mut ib_qp,
        cqs: [&PollGuard<'_, '_>; 2],
        sleep: &MaySleep,
    ) -> Result {
        // SAFETY: As for send requests above.
        if self.may_driver_drain() && unsafe { (*(*raw).device).ops.drain_rq.is_some() } {
            // SAFETY: By the type invariants; queue pairs are drained in process context.
            unsafe { bindings::ib_drain_rq(raw) };
            return Ok(());
        }
        let last = &self.drain.receives;
        let mut request: ib_recv_wr = pin_init::zeroed();
        request.__bindgen_anon_1.wr_cqe = last.as_cqe();
        let mut bad = null();
        // SAFETY: As for send requests above.
        to_result(unsafe { bindings::ib_post_recv(raw, &request, &mut bad) })?;
        wait(last, cqs, sleep);
        Ok(())
    }

    /// Waits until a connection takes no more requests from its SRQ, since a driver may lose the completions of such requests
    /// when the queue pair is destroyed. Only these requests depend on the event, so the wait is bounded.
    fn wait_for_last_wqe(&self, cqs: [&PollGuard<'_, '_>; 2], sleep: &MaySleep) {
        if !self.drain.has_received.load(Ordering::Acquire) {
            return;
        }
        for _ in 0..LAST_WQE_WAITS {
            cqs.iter().for_each(|cq| cq.poll());
            if self.drain.is_last_wqe_reached.load(Ordering::Acquire) {
                return;
            }
            sleep.sleep_ms(POLL_MS);
        }
        kernel::pr_warn_once!(
            "a queue pair of {} has not told of the last request of its shared queue\n",
            self.pd.device().owner()
        );
    }

    fn destroy_now(&self) -> Result {
        let raw = self.shared.raw.load(Ordering::Acquire);
        // SAFETY: By the type invariants `raw` is the queue pair, which is drained.
        to_result(unsafe { bindings::ib_destroy_qp_user(raw, null_mut()) })
    }
}

impl Object for Owner<'_> {
    const WHAT: &'static str = "a queue pair";

    fn destroy(&self, sleep: &MaySleep) -> Result {
        let raw = self.shared.raw.load(Ordering::Acquire);
        if raw.is_null() {
            // The queue pair was never created.
            return Ok(());
        }
        self.drain(sleep)?;
        if self.srq.is_none() {
            return self.destroy_now();
        }
        // The device may have completed another request of the SRQ, whose completion refers to the queue pair.
        self.recv_cq.exclusively(sleep, |cq| {
            self.destroy_now()?;
            cq.empty(raw, sleep);
            Ok(())
        })
    }
}

/// Moves a queue pair to the error state.
///
/// # Safety
///
/// `raw` is a valid queue pair.
unsafe fn end_all(raw: *mut ib_qp) -> Result {
    let mut attr: ib_qp_attr = pin_init::zeroed();
    attr.qp_state = QpState::Err.as_raw();
    let mask = QpAttrMask::STATE.bits() as i32;
    // SAFETY: By the safety requirements.
    to_result(unsafe { bindings::ib_modify_qp(raw, &mut attr, mask) })
}

/// Waits for the completion of a drain request.
fn wait(last: &DrainCqe, cqs: [&PollGuard<'_, '_>; 2], sleep: &MaySleep) {
    loop {
        cqs.iter().for_each(|cq| cq.poll());
        if last.done.wait_timeout(POLL_MS, sleep) {
            return;
        }
    }
}
