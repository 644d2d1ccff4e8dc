// SPDX-License-Identifier: GPL-2.0

//! States of queue pairs, their events, and their destruction.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use rdma::{
    abi::event::QpEvent,
    client::{
        cq::PollContext,
        event::OnQpEvent,
        op::RcOp,
        qp::{Config, ConnectedInit, Qp, Rc},
        Device,
    },
    MaySleep, QpState, WcStatus,
};

use crate::{
    ensure,
    probe::{connect, has_bytes, Connection, Node, PortAddress, CONNECTED},
    report, report_known,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("from state to state", || all(from, to, sleep));
    report("a change that fails", || failing(from, sleep));
    // The stock `rdma_rxe` does not start requests that were posted meanwhile.
    report_known("a send queue is drained, and goes on", || {
        drained(from, to, sleep)
    });
    report("reset, and connected again", || reset(from, to, sleep));
    report("a handle outlives its queue pair", || {
        outlived(from, to, sleep)
    });
    report("queue pairs that are never used", || unused(from, sleep));
}

fn all(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(from, PollContext::WorkQueue, sleep)?;
    let qp = node.qp::<Rc>(None, sleep)?;
    ensure!(qp.query_state(sleep) == Ok(QpState::Reset), "not reset");
    let qp = qp.into_init(&CONNECTED, sleep)?;
    ensure!(
        qp.query_state(sleep) == Ok(QpState::Init),
        "not initialised"
    );
    let number = qp.number();
    let qp = connect(qp, &PortAddress::of(to)?, number, sleep)?;
    ensure!(
        qp.query_state(sleep) == Ok(QpState::Rts),
        "not ready to send"
    );
    qp.post_receive(node.room(8, &node.received, sleep)?)?;
    let qp = qp.into_err(sleep)?;
    ensure!(qp.query_state(sleep) == Ok(QpState::Err), "not in error");
    let flushed = node.received.wait(sleep)?;
    ensure!(
        flushed.status == WcStatus::WrFlushErr,
        "{:?}",
        flushed.status
    );
    qp.post_send(node.message(b"no", sleep)?, RcOp::Send)?;
    let flushed = node.sent.wait(sleep)?;
    ensure!(
        flushed.status == WcStatus::WrFlushErr,
        "{:?}",
        flushed.status
    );
    Ok(())
}

fn failing(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let nowhere = ConnectedInit {
        port: 9,
        ..CONNECTED
    };
    let Err(failed) = node.qp::<Rc>(None, sleep)?.into_init(&nowhere, sleep) else {
        pr_info!("  port 9\n");
        return Err(EIO);
    };
    ensure!(failed.error == EINVAL, "{:?}", failed.error);
    // The queue pair is unchanged.
    failed.qp.into_init(&CONNECTED, sleep)?;
    Ok(())
}

/// Counts the events `IB_EVENT_SQ_DRAINED`.
struct Drained(Arc<AtomicUsize>);

impl OnQpEvent for Drained {
    fn qp_event(&self, event: QpEvent) {
        if event == QpEvent::SqDrained {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn drained(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let count = Arc::new(AtomicUsize::new(0), GFP_KERNEL)?;
    let config = Config {
        send_cq: &from.cq,
        recv_cq: &from.cq,
        max_sends: 4,
        max_receives: 1,
        max_pieces: 1,
        srq: None,
        events: Some(Arc::new(Drained(count.clone()), GFP_KERNEL)?),
    };
    let from_qp = Qp::<Rc, _>::new(&from.pd, config, sleep)?.into_init(&CONNECTED, sleep)?;
    let to_qp = to.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    let numbers = (from_qp.number(), to_qp.number());
    let to_qp = connect(to_qp, &PortAddress::of(&from.device)?, numbers.0, sleep)?;
    let from_qp = connect(from_qp, &PortAddress::of(&to.device)?, numbers.1, sleep)?;
    to_qp.post_receive(to.room(8, &to.received, sleep)?)?;
    let from_qp = from_qp.into_sqd(sleep)?;
    for _ in 0..200 {
        if count.load(Ordering::SeqCst) != 0 {
            break;
        }
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(10));
    }
    ensure!(
        count.load(Ordering::SeqCst) == 1,
        "{} events",
        count.load(Ordering::SeqCst)
    );
    from_qp.post_send(from.message(b"later", sleep)?, RcOp::Send)?;
    kernel::time::delay::fsleep(kernel::time::Delta::from_millis(50));
    ensure!(from.sent.count() == 0, "it sends");
    let _from_qp = from_qp.resume(sleep)?;
    ensure!(
        has_bytes(&to.received.success(sleep)?, b"later"),
        "other bytes"
    );
    from.sent.success(sleep)?;
    Ok(())
}

fn reset(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let Connection {
        mut from_qp,
        mut to_qp,
        from,
        to,
    } = Connection::new(from, to, sleep)?;
    let places = (PortAddress::of(&from.device)?, PortAddress::of(&to.device)?);
    for nth in 0..3u8 {
        to_qp.post_receive(to.room(8, &to.received, sleep)?)?;
        from_qp.post_send(from.message(&[nth; 3], sleep)?, RcOp::Send)?;
        ensure!(
            has_bytes(&to.received.success(sleep)?, &[nth; 3]),
            "other bytes"
        );
        from.sent.success(sleep)?;
        // One request is left, and is returned.
        to_qp.post_receive(to.room(8, &to.received, sleep)?)?;
        let before = to.received.count();
        let from_again = from_qp.into_err(sleep)?.into_reset(sleep)?;
        let to_again = to_qp.into_err(sleep)?.into_reset(sleep)?;
        ensure!(to.received.count() == before.wrapping_add(1), "not flushed");
        to.received.wait(sleep)?;
        let from_again = from_again.into_init(&CONNECTED, sleep)?;
        let to_again = to_again.into_init(&CONNECTED, sleep)?;
        let numbers = (from_again.number(), to_again.number());
        from_qp = connect(from_again, &places.1, numbers.1, sleep)?;
        to_qp = connect(to_again, &places.0, numbers.0, sleep)?;
    }
    Ok(())
}

fn outlived(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::new(from, to, sleep)?;
    let handle = pair.from_qp.handle();
    let again = handle.clone();
    pair.expect(8, sleep)?;
    again.post_send(pair.from.message(b"handle", sleep)?, RcOp::Send)?;
    ensure!(
        has_bytes(&pair.to.received.success(sleep)?, b"handle"),
        "other bytes"
    );
    pair.from.sent.success(sleep)?;
    drop(pair.from_qp);
    let failed = handle.post_send(pair.from.message(b"handle", sleep)?, RcOp::Send);
    let shut_down = Error::from_errno(-108);
    ensure!(
        failed.is_err_and(|failed| failed.error == shut_down),
        "posted after its end"
    );
    let failed = again.post_receive(pair.from.room(8, &pair.from.received, sleep)?);
    ensure!(
        failed.is_err_and(|failed| failed.error == shut_down),
        "posted after its end"
    );
    Ok(())
}

fn unused(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::Direct, sleep)?;
    drop(node.qp::<Rc>(None, sleep)?);
    drop(node.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?);
    let config = Config {
        send_cq: &node.cq,
        recv_cq: &node.cq,
        max_sends: u32::MAX,
        max_receives: 1,
        max_pieces: 1,
        srq: None,
        events: None,
    };
    ensure!(
        Qp::<Rc, _>::new(&node.pd, config, sleep).is_err(),
        "endless queues"
    );
    Ok(())
}
