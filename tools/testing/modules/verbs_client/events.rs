// SPDX-License-Identifier: GPL-2.0

//! Events of queue pairs, shared receive queues and completion queues. Each comes after the state change that it announces: a
//! query after the event finds the new state.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, Completion as Done, SpinLockIrq};
use rdma::{
    abi::{
        event::{CqEvent, QpEvent, SrqEvent},
        wr::Remote,
    },
    client::{
        cq::{CqRef, OnCompletions, PollContext},
        event::OnQpEvent,
        op::RcOp,
        qp::{Config, Init, Peer, Qp, Rc},
        srq::{self, OnSrqEvent},
        Cq, Device, Pd, Srq,
    },
    MaySleep, Mtu, NotifyFlags, QpState, WcStatus,
};

use crate::{
    ensure,
    probe::{connect, has_bytes, Node, PortAddress, CONNECTED, PSN},
    report, report_known,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    // The stock `rdma_rxe` never raises it.
    report_known(
        "told that its peer sends, a queue pair is ready to receive",
        || established(from, to, sleep),
    );
    // The stock `rdma_rxe` raises the event first, and changes to the error state some time later.
    report_known(
        "told that its peer may not do that, a queue pair is in error",
        || refused(from, to, sleep),
    );
    report(
        "told of the last request of a shared queue, a queue pair is in error",
        || last(to, sleep),
    );
}

/// What is raised by a device that calls handlers from the call chains of its methods, as none should.
pub(crate) fn by_careless_driver(device: &Device<'_>, sleep: &MaySleep) {
    report(
        "a driver announces completions where it is asked to",
        || announced_at_once(device, sleep),
    );
    report("events of each kind of object", || each_kind(device, sleep));
}

/// Records events. Any context.
#[pin_data]
struct Noted {
    /// A bit for each kind.
    seen: AtomicU32,
    #[pin]
    some: Done,
}

impl Noted {
    fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            seen: AtomicU32::new(0),
            some <- Done::new(),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    fn note(&self, event: u32) {
        let bit = 1u32.wrapping_shl(event);
        self.seen.fetch_or(bit, Ordering::SeqCst);
        self.some.complete();
    }

    /// Waits until this event was raised.
    fn wait(&self, event: u32, sleep: &MaySleep) -> Result {
        let bit = 1u32.wrapping_shl(event);
        for _ in 0..500 {
            if self.seen.load(Ordering::SeqCst) & bit != 0 {
                return Ok(());
            }
            // The event is checked after the timeout too.
            let _ = self.some.wait_timeout(10, sleep);
        }
        pr_info!("  nobody was told for five seconds\n");
        Err(ETIMEDOUT)
    }
}

impl OnQpEvent for Noted {
    fn qp_event(&self, event: QpEvent) {
        self.note(event.as_raw());
    }
}

impl OnSrqEvent for Noted {
    fn srq_event(&self, event: SrqEvent) {
        self.note(event.as_raw());
    }
}

/// An initialised queue pair, and its recorded events.
fn watched<'d>(
    node: &Node<'d>,
    srq: Option<&Arc<Srq<'d>>>,
    sleep: &MaySleep,
) -> Result<(Qp<'d, Rc, Init>, Arc<Noted>)> {
    let noted = Noted::new()?;
    let config = Config {
        send_cq: &node.cq,
        recv_cq: &node.cq,
        max_sends: 4,
        max_receives: 4,
        max_pieces: 1,
        srq,
        events: Some(noted.clone()),
    };
    let qp = Qp::new(&node.pd, config, sleep)?.into_init(&CONNECTED, sleep)?;
    Ok((qp, noted))
}

fn established(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let from_qp = from.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    let (to_qp, noted) = watched(&to, None, sleep)?;
    let peer = Peer {
        path: PortAddress::of(&from.device)?.path(),
        mtu: Mtu::B1024,
        qp_num: from_qp.number(),
        psn: PSN,
        reads: 4,
        rnr_timer: 1,
    };
    let to_qp = to_qp.into_rtr(&peer, sleep)?;
    let from_qp = connect(
        from_qp,
        &PortAddress::of(&to.device)?,
        to_qp.number(),
        sleep,
    )?;
    to_qp.post_receive(to.room(8, &to.received, sleep)?)?;
    from_qp.post_send(from.message(b"first", sleep)?, RcOp::Send)?;
    noted.wait(QpEvent::CommEst.as_raw(), sleep)?;
    let state = to_qp.query_state(sleep)?;
    ensure!(state == QpState::Rtr, "{state:?}");
    let received = to.received.success(sleep)?;
    ensure!(has_bytes(&received, b"first"), "other bytes");
    Ok(())
}

fn refused(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let (from, to) = Node::two(from, to, PollContext::WorkQueue, sleep)?;
    let from_qp = from.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
    let (to_qp, noted) = watched(&to, None, sleep)?;
    let numbers = (from_qp.number(), to_qp.number());
    let to_qp = connect(to_qp, &PortAddress::of(&from.device)?, numbers.0, sleep)?;
    let from_qp = connect(from_qp, &PortAddress::of(&to.device)?, numbers.1, sleep)?;
    let nowhere = Remote {
        addr: 0,
        rkey: 0xdead00,
    };
    from_qp.post_send(from.message(b"no", sleep)?, RcOp::Write(nowhere))?;
    noted.wait(QpEvent::AccessErr.as_raw(), sleep)?;
    let state = to_qp.query_state(sleep)?;
    ensure!(state == QpState::Err, "{state:?}");
    let status = from.sent.wait(sleep)?.status;
    ensure!(status == WcStatus::RemAccessErr, "{status:?}");
    Ok(())
}

fn last(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let node = Node::new(device, PollContext::WorkQueue, sleep)?;
    let config = srq::Config {
        max_receives: 4,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&node.pd, config, sleep)?;
    let (qp, noted) = watched(&node, Some(&srq), sleep)?;
    let number = qp.number();
    let qp = connect(qp, &PortAddress::of(device)?, number, sleep)?;
    let qp = qp.into_err(sleep)?;
    noted.wait(QpEvent::LastWqeReached.as_raw(), sleep)?;
    let state = qp.query_state(sleep)?;
    ensure!(state == QpState::Err, "{state:?}");
    Ok(())
}

/// Takes a lock in its event handler.
struct Locking {
    lock: Arc<Lock>,
    noted: Arc<Noted>,
}

#[pin_data]
struct Lock {
    #[pin]
    held: SpinLockIrq<()>,
    told: AtomicUsize,
}

impl OnCompletions for Locking {
    fn completions(&self, _cq: &CqRef<'_>) {
        drop(self.lock.held.lock());
        self.lock.told.fetch_add(1, Ordering::SeqCst);
    }

    fn cq_event(&self, event: CqEvent) {
        self.noted.note(event.as_raw());
    }
}

/// A queue whose listener takes a lock.
fn locking<'d>(
    device: &Device<'d>,
    sleep: &MaySleep,
) -> Result<(Arc<Cq<'d>>, Arc<Lock>, Arc<Noted>)> {
    let init = pin_init!(Lock {
        held <- new_spinlock_irq!((), "Lock::held"),
        told: AtomicUsize::new(0),
    });
    let (lock, noted) = (Arc::pin_init(init, GFP_KERNEL)?, Noted::new()?);
    let listener = Locking {
        lock: lock.clone(),
        noted: noted.clone(),
    };
    Ok((Cq::notified(device, 64, 0, listener, sleep)?, lock, noted))
}

fn announced_at_once(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (cq, lock, _noted) = locking(device, sleep)?;
    for nth in 1..=4 {
        // If the handler were called within `arm`, it would deadlock on this lock.
        let held = lock.held.lock();
        cq.arm(NotifyFlags::NEXT_COMP)?;
        drop(held);
        for _ in 0..500 {
            if lock.told.load(Ordering::SeqCst) == nth {
                break;
            }
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(10));
        }
        let told = lock.told.load(Ordering::SeqCst);
        ensure!(told == nth, "told {told} times of {nth}");
    }
    // The listener may be told of this at any time, but not any more when the queue is gone.
    for _ in 0..100 {
        let (cq, lock, _noted) = locking(device, sleep)?;
        let held = lock.held.lock();
        cq.arm(NotifyFlags::NEXT_COMP)?;
        drop(cq);
        drop(held);
    }
    Ok(())
}

fn each_kind(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (cq, _lock, of_cq) = locking(device, sleep)?;
    cq.arm(NotifyFlags::SOLICITED)?;
    of_cq.wait(CqEvent::Err.as_raw(), sleep)?;
    let pd = Pd::new(device, sleep)?;
    let of_srq = Noted::new()?;
    let config = srq::Config {
        max_receives: 1,
        max_pieces: 1,
        events: Some(of_srq.clone()),
    };
    Srq::new(&pd, config, sleep)?.arm_limit(1, sleep)?;
    of_srq.wait(SrqEvent::LimitReached.as_raw(), sleep)?;
    let node = Node::with_cq(device, cq, sleep)?;
    let (_qp, of_qp) = watched(&node, None, sleep)?;
    of_qp.wait(QpEvent::CommEst.as_raw(), sleep)
}
