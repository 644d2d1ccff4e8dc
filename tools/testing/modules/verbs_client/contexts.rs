// SPDX-License-Identifier: GPL-2.0

//! Posting, polling and creating address handles in contexts that must not sleep; and the rules for completion handlers.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::{
    client::{
        cq::{CqRef, OnCompletions, PollContext},
        dma::Buffer,
        op::RcOp,
        qp::{self, QpHandle, Rc, Rts},
        srq::{Config, SrqHandle},
        timer::{Context, OnTick, Timer},
        work::{Completion, Handler},
        Ah, Cq, Device, Mr, Pd, Qp, Srq, Work,
    },
    AhFields, MaySleep, NotifyFlags, WcOpcode,
};

use crate::{
    ensure, polling,
    probe::{connect, Connection, Node, PortAddress, CONNECTED},
    report, AH_IN_INTERRUPTS,
};

pub(crate) fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    let ticks = |context| from_timer(from, to, context, sleep);
    report("all from a hard interrupt", || ticks(Context::Hard));
    report("all from a softirq", || ticks(Context::Soft));
    let law = |context| {
        let pair = Connection::polled(from, to, context, sleep)?;
        lock_across_post(&pair, sleep)
    };
    report("a lock is held across posts: softirq", || {
        law(PollContext::SoftIrq)
    });
    report("a lock is held across posts: work item", || {
        law(PollContext::WorkQueue)
    });
    report("a lock is held across posts: any CPU", || {
        law(PollContext::UnboundWorkQueue)
    });
    report("a lock is held across posts: told of completions", || {
        told_across_post(from, to, sleep)
    });
    let destroyed = |context| dropped_by_handlers(from, to, context, sleep);
    report("handlers have the last reference: softirq", || {
        destroyed(PollContext::SoftIrq)
    });
    report("handlers have the last reference: work item", || {
        destroyed(PollContext::WorkQueue)
    });
}

/// The number of times that the timer expires.
const TICKS: usize = 100;

/// The timeout of a test.
const TRIES: u32 = 500;

fn pause() {
    kernel::time::delay::fsleep(kernel::time::Delta::from_millis(10));
}

/// What is counted.
#[derive(Default)]
struct Counts {
    sent: AtomicUsize,
    received: AtomicUsize,
    told: AtomicUsize,
    failed: AtomicUsize,
}

/// Counts completions.
struct Counting(Arc<Counts>);

impl<'d> Handler<'d> for Counting {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if !completion.is_success() {
            return;
        }
        let counts = &work.handler().0;
        let count = match completion.opcode() {
            Some(WcOpcode::Recv) => &counts.received,
            _ => &counts.sent,
        };
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// Counts completion events. The timer polls.
struct CountEvents(Arc<Counts>);

impl OnCompletions for CountEvents {
    fn completions(&self, _cq: &CqRef<'_>) {
        self.0.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// Does in each call all that is allowed in any context, at the sending end, whose completions it polls.
struct Sending<'d> {
    counts: Arc<Counts>,
    left: usize,
    device: Device<'d>,
    qp: QpHandle<'d, Rc, Rts>,
    cq: Arc<Cq<'d>>,
    pd: Pd<'d>,
    path: AhFields,
    ah: Option<Ah<'d>>,
}

/// The same at the receiving end, which has an SRQ, and whose completions are announced.
struct Receiving<'d> {
    counts: Arc<Counts>,
    left: usize,
    device: Device<'d>,
    srq: SrqHandle<'d>,
    cq: Arc<Cq<'d>>,
}

/// A request. Any context.
fn request<'d>(device: &Device<'d>, counts: &Arc<Counts>) -> Result<Pin<KBox<Work<'d, Counting>>>> {
    let buffer = Buffer::new(device, 8, GFP_ATOMIC)?;
    Work::with_buffer(buffer, Counting(counts.clone()), GFP_ATOMIC)
}

/// The time until the next call, in nanoseconds.
const PERIOD: u64 = 500_000;

impl OnTick for Sending<'_> {
    fn tick(&mut self) -> Option<u64> {
        let mut post = || -> Result {
            if AH_IN_INTERRUPTS.load(Ordering::Relaxed) {
                // The last one is dropped here.
                self.ah = Some(Ah::new_atomic(&self.pd, &self.path)?);
            }
            self.qp.post_receive(request(&self.device, &self.counts)?)?;
            Ok(self
                .qp
                .post_send(request(&self.device, &self.counts)?, RcOp::Send)?)
        };
        let posted = match self.left {
            0 => Ok(()),
            _ => post(),
        };
        self.left = self.left.saturating_sub(1);
        if posted.is_err() || self.cq.poll(16).is_err() {
            self.counts.failed.fetch_add(1, Ordering::SeqCst);
        }
        Some(PERIOD)
    }
}

impl OnTick for Receiving<'_> {
    fn tick(&mut self) -> Option<u64> {
        let posted = match self.left {
            0 => true,
            _ => request(&self.device, &self.counts)
                .is_ok_and(|work| self.srq.post_receive(work).is_ok()),
        };
        self.left = self.left.saturating_sub(1);
        let is_polled = self.cq.poll(16).is_ok() && self.cq.arm(NotifyFlags::NEXT_COMP).is_ok();
        if !posted || !is_polled {
            self.counts.failed.fetch_add(1, Ordering::SeqCst);
        }
        Some(PERIOD)
    }
}

fn from_timer(from: &Device<'_>, to: &Device<'_>, context: Context, sleep: &MaySleep) -> Result {
    let counts = Arc::new(Counts::default(), GFP_KERNEL)?;
    let from = Node::new(from, PollContext::Direct, sleep)?;
    // All of the SRQ, and the last request to send.
    let announced = Cq::notified(to, 513, 0, CountEvents(counts.clone()), sleep)?;
    let to = Node::with_cq(to, announced, sleep)?;
    let config = Config {
        max_receives: 512,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(&to.pd, config, sleep)?;
    let config = qp::Config {
        send_cq: &from.cq,
        recv_cq: &from.cq,
        max_sends: 100,
        max_receives: 200,
        max_pieces: 1,
        srq: None,
        events: None,
    };
    let from_qp = Qp::new(&from.pd, config, sleep)?.into_init(&CONNECTED, sleep)?;
    let to_qp = to
        .qp::<Rc>(Some(&srq), sleep)?
        .into_init(&CONNECTED, sleep)?;
    let numbers = (from_qp.number(), to_qp.number());
    let from_qp = connect(from_qp, &PortAddress::of(&to.device)?, numbers.1, sleep)?;
    let _to_qp = connect(to_qp, &PortAddress::of(&from.device)?, numbers.0, sleep)?;
    let receiving = Receiving {
        counts: counts.clone(),
        left: TICKS,
        device: to.device.clone(),
        srq: srq.handle(),
        cq: to.cq.clone(),
    };
    let sending = Sending {
        counts: counts.clone(),
        left: TICKS,
        device: from.device.clone(),
        qp: from_qp.handle(),
        cq: from.cq.clone(),
        pd: from.pd.clone(),
        path: PortAddress::of(&to.device)?.path(),
        ah: None,
    };
    let receiving = Timer::new(&to.device, context, receiving)?;
    let sending = Timer::new(&from.device, context, sending)?;
    receiving.start(PERIOD);
    sending.start(PERIOD);
    for _ in 0..TRIES {
        if counts.received.load(Ordering::SeqCst) == TICKS
            && counts.sent.load(Ordering::SeqCst) == TICKS
        {
            break;
        }
        pause();
    }
    sending.stop(sleep);
    receiving.stop(sleep);
    let load = |count: &AtomicUsize| count.load(Ordering::SeqCst);
    ensure!(
        load(&counts.failed) == 0,
        "{} calls failed",
        load(&counts.failed)
    );
    ensure!(
        load(&counts.received) == TICKS,
        "{} received",
        load(&counts.received)
    );
    ensure!(load(&counts.sent) == TICKS, "{} sent", load(&counts.sent));
    ensure!(load(&counts.told) != 0, "nobody was told");
    Ok(())
}

/// Takes a lock when a request is completed.
struct Locking {
    lock: Arc<Locked>,
}

#[pin_data]
struct Locked {
    #[pin]
    lock: SpinLockIrq<usize>,
    /// A handler runs.
    inside: AtomicBool,
    twice: AtomicBool,
}

impl<'d> Handler<'d> for Locking {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        let locked = &work.handler().lock;
        if locked.inside.swap(true, Ordering::SeqCst) {
            locked.twice.store(true, Ordering::SeqCst);
        }
        // It takes long.
        kernel::time::delay::udelay(kernel::time::Delta::from_micros(300));
        let mut count = locked.lock.lock();
        *count = count.wrapping_add(1);
        drop(count);
        locked.inside.store(false, Ordering::SeqCst);
    }
}

fn told_across_post(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) -> Result {
    let told = Arc::new(AtomicUsize::new(0), GFP_KERNEL)?;
    lock_across_post(&polling::told(from, to, &told, sleep)?, sleep)
}

fn lock_across_post(pair: &Connection<'_, '_>, sleep: &MaySleep) -> Result {
    let init = pin_init!(Locked {
        lock <- new_spinlock_irq!(0, "Locked::lock"),
        inside: AtomicBool::new(false),
        twice: AtomicBool::new(false),
    });
    let locked = Arc::pin_init(init, GFP_KERNEL)?;
    let mut count = 0;
    for _ in 0..4 {
        for _ in 0..8 {
            pair.expect(8, sleep)?;
            let lock = locked.clone();
            let work = Work::new(&pair.from.device, 8, Locking { lock }, sleep)?;
            // Interrupts are off.
            let held = locked.lock.lock();
            pair.from_qp.post_send(work, RcOp::Send)?;
            drop(held);
        }
        count += 8;
        for _ in 0..TRIES {
            if *locked.lock.lock() == count {
                break;
            }
            pause();
        }
        ensure!(
            *locked.lock.lock() == count,
            "{} handled",
            *locked.lock.lock()
        );
        for _ in 0..8 {
            pair.to.received.success(sleep)?;
        }
    }
    ensure!(!locked.twice.load(Ordering::SeqCst), "two handlers at once");
    Ok(())
}

/// Has what is destroyed after its last reference is dropped, here or there.
struct Owning<'d> {
    _pd: Pd<'d>,
    _cq: Arc<Cq<'d>>,
    _mr: Mr<'d>,
    _ah: Ah<'d>,
    counts: Arc<Counts>,
}

impl<'d> Handler<'d> for Owning<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let counts = work.handler().counts.clone();
        let count = match completion.is_success() {
            true => &counts.sent,
            false => &counts.failed,
        };
        drop(work);
        count.fetch_add(1, Ordering::SeqCst);
    }
}

fn dropped_by_handlers(
    from: &Device<'_>,
    to: &Device<'_>,
    context: PollContext,
    sleep: &MaySleep,
) -> Result {
    let pair = Connection::polled(from, to, context, sleep)?;
    let counts = Arc::new(Counts::default(), GFP_KERNEL)?;
    for nth in 1..=8 {
        let pd = Pd::new(from, sleep)?;
        let owning = Owning {
            _cq: Cq::new(from, 1, 0, context, sleep)?,
            _mr: Mr::new(&pd, 1, sleep)?,
            _ah: Ah::new(&pd, &PortAddress::of(to)?.path(), sleep)?,
            _pd: pd,
            counts: counts.clone(),
        };
        pair.expect(8, sleep)?;
        let work = Work::new(from, 8, owning, sleep)?;
        pair.from_qp.post_send(work, RcOp::Send)?;
        pair.to.received.success(sleep)?;
        for _ in 0..TRIES {
            if counts.sent.load(Ordering::SeqCst) == nth {
                break;
            }
            pause();
        }
        let sent = counts.sent.load(Ordering::SeqCst);
        ensure!(sent == nth, "{sent} of {nth}");
    }
    ensure!(counts.failed.load(Ordering::SeqCst) == 0, "failed");
    Ok(())
}
