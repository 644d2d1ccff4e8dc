// SPDX-License-Identifier: GPL-2.0

//! Destruction of objects, also where the driver fails to drain a queue pair or to destroy an object: the objects that the driver
//! may still use must stay allocated. When the client is removed, each request must have been handled once: its handler logs
//! `handled`.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay::fsleep, Delta},
};
use rdma::{
    abi::event::QpEvent,
    client::{
        cq::{CqRef, OnCompletions, PollContext},
        dma::{Bidirectional, Pages},
        event::OnQpEvent,
        op::RcOp,
        qp::{self, Qp, Rc},
        srq,
        work::{Completion, Handler},
        Cq, Device, Mr, Srq, Work,
    },
    Access, MaySleep, WcStatus,
};

use crate::{
    ensure, polling,
    probe::{connect, has_bytes, Connection, Node, PortAddress, CONNECTED},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("a queue pair goes with requests to receive", || {
        queue_pair(from, to, sleep)
    });
    report("a shared receive queue goes with requests", || {
        shared_queue(to, sleep)
    });
    report(
        "a queue pair waits for the last event of its shared queue",
        || last_event(to, sleep),
    );
    report("a region goes while a peer knows its key", || {
        region(from, to, sleep)
    });
}

/// Logs each completion.
struct LogCompletion;

impl<'d> Handler<'d> for LogCompletion {
    fn done(_work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        pr_info!("  handled: {:?}\n", completion.status());
    }
}

/// Destroys a queue pair together with the listener of its completion queue.
fn queue_pair(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let told = Arc::new(AtomicUsize::new(0), GFP_KERNEL)?;
    let pair = polling::told(from, to, &told, sleep)?;
    pair.expect(64, sleep)?;
    let work = pair.from.message(b"a message", sleep)?;
    pair.from_qp.post_send(work, RcOp::Send)?;
    let received = pair.to.received.success(sleep)?;
    ensure!(has_bytes(&received, b"a message"), "other bytes");
    pair.from.sent.success(sleep)?;
    for _ in 0..2 {
        pair.to_qp
            .post_receive(Work::new(&pair.to.device, 64, LogCompletion, sleep)?)?;
    }
    Ok(())
}

fn shared_queue(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let config = srq::Config {
        max_receives: 4,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&node.pd, config, sleep)?;
    for _ in 0..2 {
        srq.post_receive(Work::new(device, 64, LogCompletion, sleep)?)?;
    }
    Ok(())
}

/// Records the event `IB_EVENT_QP_LAST_WQE_REACHED`.
struct Last(Arc<AtomicBool>);

impl OnQpEvent for Last {
    fn qp_event(&self, event: QpEvent) {
        if event == QpEvent::LastWqeReached {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

/// Never polls.
struct Idle;

impl OnCompletions for Idle {
    fn completions(&self, _cq: &CqRef<'_>) {}
}

fn last_event(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::with_cq(device, Cq::notified(device, 64, 0, Idle, sleep)?, sleep)?;
    let config = srq::Config {
        max_receives: 4,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&node.pd, config, sleep)?;
    let told = Arc::new(AtomicBool::new(false), GFP_KERNEL)?;
    let config = qp::Config {
        send_cq: &node.cq,
        recv_cq: &node.cq,
        max_sends: 4,
        max_receives: 4,
        max_pieces: 1,
        srq: Some(&srq),
        events: Some(Arc::new(Last(told.clone()), GFP_KERNEL)?),
    };
    let qp = Qp::<Rc, _>::new(&node.pd, config, sleep)?.into_init(&CONNECTED, sleep)?;
    let number = qp.number();
    let qp = connect(qp, &PortAddress::of(device)?, number, sleep)?;
    let was_refused = qp.into_err(sleep).is_err();
    ensure!(
        was_refused || told.load(Ordering::SeqCst),
        "it did not wait"
    );
    Ok(())
}

/// The peer writes to a region that is gone, or was to go.
fn region(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    let pages = Pages::<Bidirectional>::new(to, 3 * 4096, sleep)?;
    let mr = Mr::new(&pair.to.pd, 3, sleep)?;
    mr.map(&pages, sleep)?;
    let access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);
    let work = pair.to.room(0, &pair.to.sent, sleep)?;
    pair.to_qp
        .post_send(work, RcOp::RegMr { mr: &mr, access })?;
    drop(pair.to.sent.success(sleep)?);
    let remote = mr.remote(0)?;
    drop((mr, pages));
    // A work item destroys it.
    fsleep(Delta::from_millis(50));
    let work = pair.from.room(3 * 4096, &pair.from.sent, sleep)?;
    pair.from_qp.post_send(work, RcOp::Write(remote))?;
    let status = pair.from.sent.wait(sleep)?.status;
    ensure!(
        matches!(status, WcStatus::Success | WcStatus::RemAccessErr),
        "{status:?}"
    );
    Ok(())
}
