// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use rdma::{
    event::SrqEvent,
    verbs::{
        cq::PollContext,
        post::RcOp,
        qp::Rc,
        srq::{Config, OnSrqEvent},
        Device, Srq,
    },
    MaySleep,
};

use crate::{
    ensure,
    probe::{connect, has_bytes, Node, Place, CONNECTED},
    report,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    report("two queue pairs share a receive queue", || {
        two(from, to, sleep)
    });
    report("what nobody has taken is handed back", || {
        handed_back(from, sleep)
    });
}

/// Counts that the limit is reached.
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
    let places = (Place::of(&from.device)?, Place::of(&to.device)?);
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
