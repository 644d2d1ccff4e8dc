// SPDX-License-Identifier: GPL-2.0

//! Timers and their references.

use super::*;
use kernel::workqueue::{self, impl_has_work, new_work, Work, WorkItem};
use kernel_ext::{timer::now_ns, work};

const FAR: u64 = 10_000_000_000;

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    let object = Object::new(1)?;
    Timer::arm(&object, now_ns() + FAR);
    check!(object.timer.is_armed());
    let began = now_ns();
    Timer::arm(&object, began + 2_000_000);
    check!(object.called.wait_timeout(1000, may_sleep));
    check!(now_ns() - began >= 2_000_000);
    check!(object.calls.load(SeqCst) == 1 && !object.timer.is_armed());

    // An earlier deadline replaces the timer's, a later one does not.
    Timer::arm(&object, now_ns() + FAR);
    Timer::arm(&object, now_ns() + 1_000_000);
    Timer::arm(&object, now_ns() + FAR);
    check!(object.called.wait_timeout(1000, may_sleep));
    check!(object.calls.load(SeqCst) == 2);

    Timer::arm(&object, now_ns() + FAR);
    check!(Timer::cancel(&object) && !Timer::cancel(&object));
    Timer::arm(&object, now_ns() + FAR);
    Timer::cancel_sync(&object, may_sleep);
    Timer::arm(&object, now_ns() + FAR);
    Timer::shut_down(&object, may_sleep);
    Timer::arm(&object, now_ns());
    check!(!object.timer.is_armed());
    drop(object);
    check!(LIVE.load(SeqCst) == 0);

    // The last reference is the timer's.
    Timer::arm(&Object::new(2)?, now_ns() + 5_000_000);
    check!(LIVE.load(SeqCst) == 1);
    pause(100, may_sleep)?;
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}

/// Arms a timer anew while it expires, and cancels it while it runs.
pub(super) fn storm(may_sleep: &MaySleep) -> Result {
    let object = Object::new(1)?;
    for round in 0..20_000 {
        Timer::arm(&object, now_ns() + 40_000 - (round % 40) * 1000);
        Timer::arm(&object, now_ns() + 5_000);
        if round % 7 == 0 {
            Timer::cancel_sync(&object, may_sleep);
        }
    }
    // On a busy host none may have expired yet.
    Timer::arm(&object, now_ns() + 1_000_000);
    pause(100, may_sleep)?;
    Timer::shut_down(&object, may_sleep);
    check!(object.calls.load(SeqCst) > 0 && LIVE.load(SeqCst) == 1);
    drop(object);
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}

/// Its timer takes long. Its work arms the timer, and keeps its processor busy until that expires there.
#[pin_data]
struct Slow {
    #[pin]
    work: Work<Slow>,
    #[pin]
    timer: Timer<Slow>,
    #[pin]
    began: Completion,
}

impl_has_work! { impl HasWork<Self> for Slow { self.work } }
impl_has_timer! { impl HasTimer<0> for Slow { self.timer } }

impl WorkItem for Slow {
    type Pointer = Arc<Slow>;

    fn run(this: Arc<Slow>) {
        Timer::arm(&this, now_ns() + 200_000);
        busy(2_000_000);
    }
}

impl OnTimer for Slow {
    fn expired(this: Arc<Self>) {
        this.began.complete();
        busy(20_000_000);
    }
}

fn busy(ns: u64) {
    let end = now_ns() + ns;
    while now_ns() < end {
        core::hint::spin_loop();
    }
}

/// How often this thread has slept.
fn sleeps() -> u64 {
    // SAFETY: The current task exists, and only itself changes this number.
    unsafe { (*kernel::bindings::get_current()).nvcsw as u64 }
}

/// Waiting for a callback sleeps: with PREEMPT_RT the waiter may have preempted it, and would spin for ever.
pub(super) fn stop_sleeps(may_sleep: &MaySleep) -> Result {
    const ROUNDS: u32 = 50;
    if work::nth_online_cpu(0) == work::nth_online_cpu(1) {
        return Ok(());
    }
    for round in 0..ROUNDS {
        let slow = Arc::pin_init(
            pin_init!(Slow {
                work <- new_work!("Slow::work"),
                timer <- Timer::new(),
                began <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        check!(work::enqueue_on(
            work::nth_online_cpu(round),
            workqueue::system_highpri(),
            &slow
        ));
        check!(slow.began.wait_timeout(5000, may_sleep));
        let (slept, began) = (sleeps(), now_ns());
        Timer::cancel_sync(&slow, may_sleep);
        // Now and then this thread wakes up where the timer has expired, only after that.
        if now_ns() - began > 5_000_000 {
            check!(sleeps() > slept);
            return Ok(());
        }
    }
    pr_err!("no callback was waited for\n");
    Err(EAGAIN)
}
