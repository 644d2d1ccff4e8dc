// SPDX-License-Identifier: GPL-2.0

//! Completion queues of each kind.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::compat::limit::Limit;
use rdma::{
    client::{
        cq::{CqRef, OnCompletions, PollContext},
        op::RcOp,
        qp::Rc,
        srq, Cq, Device, Srq,
    },
    MaySleep, NotifyFlags, WcOpcode, WcStatus,
};

use crate::{
    ensure,
    probe::{has_bytes, Connection, Node, CONNECTED},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    let polled = |context| polled_by_core(from, to, context, sleep);
    report("completions in a softirq", || polled(PollContext::SoftIrq));
    report("completions in a work item", || {
        polled(PollContext::WorkQueue)
    });
    report("completions in a work item on any CPU", || {
        polled(PollContext::UnboundWorkQueue)
    });
    report("completions that the client polls", || {
        polled_by_client(from, to, sleep)
    });
    report("completions that the client is told of", || {
        notified(from, to, sleep)
    });
    report("queues that cannot be", || impossible(from, sleep));
    report("no queue overruns", || full(from, sleep));
    report("an SRQ takes its room once", || shared(from, sleep));
}

/// Sends a message; both ends get a completion event.
fn polled_by_core(
    from: &Device<'_>,
    to: &Device<'_>,
    context: PollContext,
    sleep: &MaySleep,
) -> Result {
    let pair = Connection::polled(from, to, context, sleep)?;
    ensure!(
        pair.from.cq.poll(1) == Err(EINVAL),
        "its client polls a queue of the core"
    );
    pair.expect(64, sleep)?;
    let work = pair.from.message(b"a message", sleep)?;
    pair.from_qp.post_send(work, RcOp::Send)?;
    let received = pair.to.received.success(sleep)?;
    ensure!(
        received.opcode == Some(WcOpcode::Recv),
        "{:?}",
        received.opcode
    );
    ensure!(has_bytes(&received, b"a message"), "other bytes");
    ensure!(received.immediate.is_none(), "immediate data from nowhere");
    let sent = pair.from.sent.success(sleep)?;
    ensure!(sent.opcode == Some(WcOpcode::Send), "{:?}", sent.opcode);
    Ok(())
}

fn polled_by_client(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Connection::polled(from, to, PollContext::Direct, sleep)?;
    pair.expect(64, sleep)?;
    let work = pair.from.message(b"a message", sleep)?;
    pair.from_qp.post_send(work, RcOp::Send)?;
    let received = pair.to.received.wait_with(sleep, || {
        let _ = pair.to.cq.poll(1);
    })?;
    ensure!(has_bytes(&received, b"a message"), "other bytes");
    ensure!(
        pair.from.sent.count() == 0,
        "a handler ran, and nobody polled"
    );
    let sent = pair.from.sent.wait_with(sleep, || {
        let _ = pair.from.cq.poll(u32::MAX);
    })?;
    ensure!(sent.status == WcStatus::Success, "{:?}", sent.status);
    ensure!(pair.from.cq.poll(u32::MAX) == Ok(0), "more than there is");
    // The rest is flushed when the queue pair is destroyed; then nobody polls.
    let received = pair.to.received.clone();
    pair.expect(64, sleep)?;
    let (before, from, to) = (received.count(), pair.from, pair.to);
    drop((pair.from_qp, pair.to_qp));
    ensure!(received.count() == before.wrapping_add(1), "not flushed");
    drop((from, to));
    Ok(())
}

/// Polls in the completion event handler, and arms the queue again.
struct Eager(Arc<AtomicUsize>);

impl OnCompletions for Eager {
    fn completions(&self, cq: &CqRef<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        loop {
            let _ = cq.poll(u32::MAX);
            if !matches!(cq.arm(NotifyFlags::NEXT_COMP), Ok(true)) {
                return;
            }
        }
    }
}

/// A connection whose ends poll in their completion event handlers.
pub(crate) fn told<'a, 'b>(
    from: &Device<'a>,
    to: &Device<'b>,
    told: &Arc<AtomicUsize>,
    sleep: &MaySleep,
) -> Result<Connection<'a, 'b>> {
    let from_cq = Cq::notified(from, 128, 0, Eager(told.clone()), sleep)?;
    let to_cq = Cq::notified(to, 128, 0, Eager(told.clone()), sleep)?;
    let from = Node::with_cq(from, from_cq, sleep)?;
    let to = Node::with_cq(to, to_cq, sleep)?;
    let pair = Connection::between((from, to), sleep)?;
    let armed = (
        pair.from.cq.arm(NotifyFlags::NEXT_COMP)?,
        pair.to.cq.arm(NotifyFlags::NEXT_COMP)?,
    );
    ensure!(armed == (false, false), "not empty");
    Ok(pair)
}

fn notified(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let count = Arc::new(AtomicUsize::new(0), GFP_KERNEL)?;
    let pair = told(from, to, &count, sleep)?;
    for nth in 0..4u8 {
        pair.expect(64, sleep)?;
        let work = pair.from.message(&[nth; 8], sleep)?;
        pair.from_qp.post_send(work, RcOp::Send)?;
        ensure!(
            has_bytes(&pair.to.received.success(sleep)?, &[nth; 8]),
            "other bytes"
        );
        pair.from.sent.success(sleep)?;
    }
    ensure!(count.load(Ordering::SeqCst) >= 2, "nobody was told");
    pair.expect(64, sleep)?;
    Ok(())
}

fn impossible(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let context = PollContext::WorkQueue;
    ensure!(
        Cq::new(device, 0, 0, context, sleep).is_err(),
        "an empty queue"
    );
    let most = device.attrs().max_cqe.most();
    let more = most.saturating_add(1);
    ensure!(
        Cq::new(device, more, 0, context, sleep).is_err(),
        "too large a queue"
    );
    let cq = Cq::new(device, 1, 0, context, sleep)?;
    ensure!(cq.arm(NotifyFlags::NEXT_COMP) == Err(EINVAL), "armed");
    Ok(())
}

/// A node whose completion queue has this capacity, and is polled by the node.
fn with_room<'d>(device: &Device<'d>, entries: u32, sleep: &MaySleep) -> Result<Node<'d>> {
    let cq = Cq::new(device, entries, 0, PollContext::Direct, sleep)?;
    Node::with_cq(device, cq, sleep)
}

/// A request is not posted if there is no room for its completion: the destruction would wait for the completion for ever.
fn full(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = with_room(device, 1, sleep)?;
    let made = node.qp::<Rc>(None, sleep);
    ensure!(made.err() == Some(ENOMEM), "it could not be destroyed");
    let node = with_room(device, 5, sleep)?;
    let room = || node.room(8, &node.received, sleep);
    let qp = node.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    for _ in 0..3 {
        qp.post_receive(room()?)?;
    }
    let more = qp.post_receive(room()?).map_err(|failed| failed.error);
    ensure!(more == Err(ENOMEM), "one more: {more:?}");
    let qp = qp.into_err(sleep)?;
    for _ in 0..3 {
        let flushed = node.received.wait_with(sleep, || {
            let _ = node.cq.poll(16);
        })?;
        ensure!(
            flushed.status == WcStatus::WrFlushErr,
            "{:?}",
            flushed.status
        );
    }
    for _ in 0..3 {
        qp.post_receive(room()?)?;
    }
    drop(qp);
    ensure!(node.received.count() == 6, "{}", node.received.count());
    drop(node.qp::<Rc>(None, sleep)?);
    Ok(())
}

/// All queue pairs of an SRQ that have the same completion queue share its room there.
fn shared(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = with_room(device, 10, sleep)?;
    let config = srq::Config {
        max_receives: 8,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&node.pd, config, sleep)?;
    let first = node.qp::<Rc>(Some(&srq), sleep)?;
    let _second = node.qp::<Rc>(Some(&srq), sleep)?;
    let third = node.qp::<Rc>(Some(&srq), sleep).err();
    ensure!(third == Some(ENOMEM), "a third one: {third:?}");
    drop(first);
    drop(node.qp::<Rc>(Some(&srq), sleep)?);
    Ok(())
}
