// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::{
    prelude::*,
    sync::Arc,
    time::{delay, Delta},
};
use rdma::{
    abi::event::SrqEvent,
    client::{
        cq::{CqRef, OnCompletions, PollContext},
        op::{RcOp, UdOp},
        qp::{Qp, Rc, Rts, Ud},
        srq::{Config, OnSrqEvent},
        work::{Completion, Handler},
        Ah, Cq, Device, Srq, Work,
    },
    MaySleep, NotifyFlags,
};

use crate::{
    datagram::{ready, QKEY},
    ensure,
    probe::{connect, has_bytes, Node, PortAddress, CONNECTED},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("two queue pairs share a receive queue", || {
        two(from, to, sleep)
    });
    report("what nobody has taken is handed back", || {
        handed_back(from, sleep)
    });
    left_over(from, to, sleep);
}

/// Destroys a datagram queue pair while completions of its SRQ are not handled.
fn left_over(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("datagrams are left: polled by the client", || {
        not_polled(from, to, sleep)
    });
    let core = |context| {
        let cq = Cq::new(to, 64, 0, context, sleep)?;
        while_handled(from, Node::with_cq(to, cq, sleep)?, sleep)
    };
    report("datagrams are left: softirq", || core(PollContext::SoftIrq));
    report("datagrams are left: work item", || {
        core(PollContext::WorkQueue)
    });
    report("datagrams are left: told of completions", || {
        let cq = Cq::notified(to, 64, 0, Eager, sleep)?;
        cq.arm(NotifyFlags::NEXT_COMP)?;
        while_handled(from, Node::with_cq(to, cq, sleep)?, sleep)
    });
}

/// Counts the events that the limit is reached.
struct Limit(Arc<AtomicUsize>);

impl OnSrqEvent for Limit {
    fn srq_event(&self, event: SrqEvent) {
        if event == SrqEvent::LimitReached {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn two(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let places = (PortAddress::of(&from.device)?, PortAddress::of(&to.device)?);
    let reached = Arc::new(AtomicUsize::new(0), GFP_KERNEL)?;
    let config = Config {
        max_receives: 8,
        max_pieces: 1,
        events: Some(Arc::new(Limit(reached.clone()), GFP_KERNEL)?),
    };
    let srq = Srq::new(&to.pd, config, sleep)?;
    let pair = |sleep| -> Result<_> {
        let from_qp = from.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
        let to_qp = to
            .qp::<Rc>(Some(&srq), sleep)?
            .into_init(&CONNECTED, sleep)?;
        let numbers = (from_qp.number(), to_qp.number());
        let from_qp = connect(from_qp, &places.1, numbers.1, sleep)?;
        Ok((from_qp, connect(to_qp, &places.0, numbers.0, sleep)?))
    };
    let pairs = [pair(sleep)?, pair(sleep)?];
    for _ in 0..6 {
        srq.post_receive(to.room(64, &to.received, sleep)?)?;
    }
    srq.arm_limit(4, sleep)?;
    ensure!(srq.limit(sleep) == Ok(4), "another limit");
    ensure!(srq.arm_limit(1000, sleep).is_err(), "a limit of 1000");
    for nth in 0..4u8 {
        let (from_qp, _) = pairs.get(usize::from(nth % 2)).ok_or(EINVAL)?;
        from_qp.post_send(from.message(&[nth; 5], sleep)?, RcOp::Send)?;
        from.sent.success(sleep)?;
        ensure!(
            has_bytes(&to.received.success(sleep)?, &[nth; 5]),
            "other bytes"
        );
    }
    for _ in 0..200 {
        if reached.load(Ordering::SeqCst) != 0 {
            break;
        }
        kernel::time::delay::fsleep(kernel::time::Delta::from_millis(10));
    }
    ensure!(
        reached.load(Ordering::SeqCst) == 1,
        "{} times",
        reached.load(Ordering::SeqCst)
    );
    ensure!(srq.limit(sleep) == Ok(0), "it is still armed");
    // A queue pair with a shared queue has none of its own.
    let (_, to_qp) = pairs.first().ok_or(EINVAL)?;
    let own = to_qp.post_receive(to.room(64, &to.received, sleep)?);
    ensure!(own.is_err(), "a queue of its own");
    Ok(())
}

fn handed_back(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let config = Config {
        max_receives: 4,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&node.pd, config, sleep)?;
    for _ in 0..4 {
        srq.post_receive(node.room(64, &node.received, sleep)?)?;
    }
    let fifth = srq.post_receive(node.room(64, &node.received, sleep)?);
    ensure!(
        fifth.is_err_and(|failed| failed.error == ENOMEM),
        "a fifth of four"
    );
    drop(srq);
    ensure!(
        node.received.count() == 4,
        "{} handed back",
        node.received.count()
    );
    Ok(())
}

/// The number of datagrams that are sent.
const DATAGRAMS: usize = 8;

fn queue_of_datagrams<'d>(node: &Node<'d>, sleep: &MaySleep) -> Result<Arc<Srq<'d>>> {
    let config = Config {
        max_receives: DATAGRAMS as u32,
        max_pieces: 1,
        events: None,
    };
    Srq::new(&node.pd, config, sleep)
}

fn send_datagrams<'d>(
    from: &Node<'d>,
    from_qp: &Qp<'d, Ud, Rts>,
    to: &Node<'_>,
    qp_num: u32,
    sleep: &MaySleep,
) -> Result {
    let path = PortAddress::of(&to.device)?.path();
    let ah = Ah::new(&from.pd, &path, sleep)?;
    for _ in 0..DATAGRAMS {
        let op = UdOp {
            ah: &ah,
            qp_num,
            qkey: QKEY,
            immediate: None,
        };
        from_qp.post_send(from.message(b"datagram", sleep)?, op)?;
    }
    for _ in 0..DATAGRAMS {
        from.sent.success(sleep)?;
    }
    Ok(())
}

/// No completion is polled before the queue pair is destroyed.
fn not_polled(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let from = Node::new(from, PollContext::WorkQueue, sleep)?;
    let to = Node::new(to, PollContext::Direct, sleep)?;
    let srq = queue_of_datagrams(&to, sleep)?;
    let (from_qp, to_qp) = (ready(&from, None, sleep)?, ready(&to, Some(&srq), sleep)?);
    for _ in 0..DATAGRAMS {
        srq.post_receive(to.room(64, &to.received, sleep)?)?;
    }
    send_datagrams(&from, &from_qp, &to, to_qp.number(), sleep)?;
    // They arrive.
    delay::fsleep(Delta::from_millis(300));
    let before = to.received.count();
    drop(to_qp);
    let after = to.received.count();
    let more = to.cq.poll(u32::MAX)?;
    ensure!(before == 0, "{before} were handled, and nobody polled");
    ensure!(after > 0, "none was handled");
    ensure!(more == 0, "{more} came after the queue pair was gone");
    drop(srq);
    let all = to.received.count();
    ensure!(all == DATAGRAMS, "{all} handled");
    Ok(())
}

/// The actions of the handlers of datagrams.
#[derive(Default)]
struct Progress {
    count: AtomicUsize,
    /// The queue pair is destroyed.
    is_gone: AtomicBool,
    /// A handler has run after its destruction.
    is_late: AtomicBool,
}

/// Takes long, and looks at the queue pair then.
struct Slow(Arc<Progress>);

impl<'d> Handler<'d> for Slow {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let progress = &work.handler().0;
        progress.count.fetch_add(1, Ordering::SeqCst);
        if !completion.is_success() {
            return;
        }
        for _ in 0..3 {
            delay::udelay(Delta::from_millis(1));
        }
        let is_gone = progress.is_gone.load(Ordering::SeqCst);
        if is_gone || completion.qp_num().is_none() {
            progress.is_late.store(true, Ordering::SeqCst);
        }
    }
}

/// Polls in each completion event handler.
struct Eager;

impl OnCompletions for Eager {
    fn completions(&self, cq: &CqRef<'_>) {
        loop {
            let _ = cq.poll(u32::MAX);
            if !matches!(cq.arm(NotifyFlags::NEXT_COMP), Ok(true)) {
                return;
            }
        }
    }
}

/// Handlers run when the queue pair is destroyed.
fn while_handled(from: &Device<'_>, to: Node<'_>, sleep: &MaySleep) -> Result {
    let from = Node::new(from, PollContext::WorkQueue, sleep)?;
    for _ in 0..4 {
        let progress = Arc::new(Progress::default(), GFP_KERNEL)?;
        let srq = queue_of_datagrams(&to, sleep)?;
        let (from_qp, to_qp) = (ready(&from, None, sleep)?, ready(&to, Some(&srq), sleep)?);
        for _ in 0..DATAGRAMS {
            srq.post_receive(Work::new(&to.device, 64, Slow(progress.clone()), sleep)?)?;
        }
        send_datagrams(&from, &from_qp, &to, to_qp.number(), sleep)?;
        for _ in 0..1000 {
            if progress.count.load(Ordering::SeqCst) != 0 {
                break;
            }
            delay::fsleep(Delta::from_millis(1));
        }
        drop(to_qp);
        progress.is_gone.store(true, Ordering::SeqCst);
        delay::fsleep(Delta::from_millis(50));
        let is_late = progress.is_late.load(Ordering::SeqCst);
        ensure!(!is_late, "a handler ran after the queue pair was gone");
        drop(srq);
        let all = progress.count.load(Ordering::SeqCst);
        ensure!(all == DATAGRAMS, "{all} handled");
    }
    Ok(())
}
