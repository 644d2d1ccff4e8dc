// SPDX-License-Identifier: GPL-2.0

//! Waiting until all that is posted to a queue pair has been handled, and destroying it.

use core::ptr::null_mut;

use kernel::{error::to_result, prelude::*, sync::Arc, types::Opaque};
use kernel_ext::sync::{rcu, Completion};
use rdma_bindings::{
    self as bindings, ib_cq, ib_cqe, ib_qp, ib_qp_attr, ib_rdma_wr, ib_recv_wr, ib_wc,
};

use super::{Ordering, Owner};
use crate::{qp::QpAttrMask, verbs::cq::PolledAlone, MaySleep, QpState};

/// How long the last request of a queue is waited for at a time, while completions are polled.
const POLL_MS: u32 = 10;

impl Owner<'_> {
    /// Ends all requests, and waits until they are handled. Nothing can be posted from now on.
    pub(super) fn drain(&self, sleep: &MaySleep) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // Who has not seen that is inside a critical section.
        rcu::synchronize_expedited(sleep);
        if !self.used.load(Ordering::Acquire) {
            return;
        }
        self.send_cq.while_not_polled(|send_cq| {
            if Arc::ptr_eq(&self.send_cq, &self.recv_cq) {
                return self.drain_polled([send_cq, send_cq], sleep);
            }
            self.recv_cq
                .while_not_polled(|recv_cq| self.drain_polled([send_cq, recv_cq], sleep));
        });
    }

    /// As [`Self::drain`], where nobody else polls.
    fn drain_polled(&self, cqs: [&PolledAlone<'_, '_>; 2], sleep: &MaySleep) {
        let raw = self.shared.raw.load(Ordering::Acquire);
        if self.shared.is_counted() {
            return self.drain_counted(raw, cqs);
        }
        if self.send_cq.is_notified() || self.recv_cq.is_notified() {
            return self.drain_notified(raw, cqs, sleep);
        }
        // SAFETY: By the type invariants; the caller may sleep.
        unsafe { bindings::ib_drain_qp(raw) };
    }

    /// The core's way of draining relies on a request that there is not for datagrams. It is enough to count.
    fn drain_counted(&self, raw: *mut ib_qp, cqs: [&PolledAlone<'_, '_>; 2]) {
        // SAFETY: By the type invariants.
        if unsafe { end_all(raw) }.is_err() {
            return;
        }
        while self.shared.outstanding.load(Ordering::Acquire) != 0 {
            cqs.iter().for_each(|cq| cq.poll());
            // SAFETY: The caller may sleep.
            unsafe { bindings::msleep(1) };
        }
    }

    /// The core's way of draining relies on being told of completions, or on polling itself; here the client is told.
    fn drain_notified(&self, raw: *mut ib_qp, cqs: [&PolledAlone<'_, '_>; 2], sleep: &MaySleep) {
        // SAFETY: By the type invariants.
        if unsafe { end_all(raw) }.is_err() {
            return;
        }
        if let Ok(last) = Last::new() {
            let mut request: ib_rdma_wr = pin_init::zeroed();
            request.wr.__bindgen_anon_1.wr_cqe = last.cqe.get();
            request.wr.send_flags = bindings::IB_SEND_SIGNALED;
            request.wr.opcode = bindings::IB_WR_RDMA_WRITE;
            // SAFETY: As above; what the completion names stays until it has come.
            if unsafe { bindings::ib_post_send(raw, &request.wr, null_mut()) } == 0 {
                last.wait(cqs, sleep);
            }
        }
        if self.srq.is_some() {
            return;
        }
        if let Ok(last) = Last::new() {
            let mut request: ib_recv_wr = pin_init::zeroed();
            request.__bindgen_anon_1.wr_cqe = last.cqe.get();
            // SAFETY: As above.
            if unsafe { bindings::ib_post_recv(raw, &request, null_mut()) } == 0 {
                last.wait(cqs, sleep);
            }
        }
    }
}

/// Puts a queue pair in error.
///
/// # Safety
///
/// It is one.
unsafe fn end_all(raw: *mut ib_qp) -> Result {
    let mut attr: ib_qp_attr = pin_init::zeroed();
    attr.qp_state = QpState::Err.as_raw();
    let mask = QpAttrMask::STATE.bits() as i32;
    // SAFETY: By the safety requirements.
    to_result(unsafe { bindings::ib_modify_qp(raw, &mut attr, mask) })
}

/// The last request of a queue.
#[pin_data]
struct Last {
    #[pin]
    cqe: Opaque<ib_cqe>,
    #[pin]
    done: Completion,
}

impl Last {
    fn new() -> Result<Pin<KBox<Self>>> {
        let cqe = ib_cqe {
            done: Some(last_done),
        };
        let init = pin_init!(Self {
            cqe: Opaque::new(cqe),
            done <- Completion::new(),
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    fn wait(&self, cqs: [&PolledAlone<'_, '_>; 2], sleep: &MaySleep) {
        loop {
            cqs.iter().for_each(|cq| cq.poll());
            if self.done.wait_timeout(POLL_MS, sleep) {
                return;
            }
        }
    }
}

/// A door: the last request of a queue is completed.
///
/// # Safety
///
/// The completion names the `cqe` of a [`Last`].
unsafe extern "C" fn last_done(_cq: *mut ib_cq, wc: *mut ib_wc) {
    // SAFETY: By the safety requirements; who waits does so until this has told it.
    unsafe {
        let cqe = Opaque::cast_from((*wc).__bindgen_anon_1.wr_cqe);
        let last: *const Last = kernel::container_of!(cqe, Last, cqe);
        (*last).done.complete();
    }
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        if !self.is_made {
            return;
        }
        // SAFETY: What owns a queue pair is dropped in process context: handlers cannot own it.
        self.drain(&unsafe { MaySleep::assume() });
        let raw = self.shared.raw.load(Ordering::Acquire);
        // SAFETY: By the type invariants.
        let ret = unsafe { bindings::ib_destroy_qp_user(raw, null_mut()) };
        if ret != 0 {
            let owner = self.pd.device().owner();
            pr_warn!("a queue pair of {owner} cannot be destroyed: {ret}\n");
        }
    }
}
