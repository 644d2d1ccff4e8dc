// SPDX-License-Identifier: GPL-2.0

//! Work items and locks.

use super::*;
use kernel::workqueue::{
    self, impl_has_delayed_work, impl_has_work, new_delayed_work, new_work, DelayedWork, Work,
    WorkItem,
};
use kernel_ext::{
    delayed,
    sleepable::{self, SleepableWork},
    work::{self, OwnedQueue, QueueFlags},
};

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Object { self.work }
}

impl SleepableWork for Object {
    fn run(this: Arc<Object>, sleep: &MaySleep) {
        sleep.check();
        this.call();
    }
}

/// What runs later.
#[pin_data]
struct Later {
    #[pin]
    work: DelayedWork<Sleepable<Later>>,
    #[pin]
    ran: Completion,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Later { self.work }
}

impl SleepableWork for Later {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        sleep.check();
        this.ran.complete();
    }
}

/// Delayed work: pending work is cancelled, or made to run at once.
fn test_delayed(queue: &OwnedQueue, may_sleep: &MaySleep) -> Result {
    let later = Arc::pin_init(
        pin_init!(Later {
            work <- new_delayed_work!("Later::work"),
            ran <- Completion::new(),
        }),
        GFP_KERNEL,
    )?;
    let long = kernel::time::msecs_to_jiffies(60_000);
    delayed::enqueue(queue, &later, long);
    check!(delayed::cancel(&later));
    check!(!delayed::cancel(&later));
    delayed::enqueue_unless_pending(queue, &later, long);
    check!(delayed::cancel_sync(&later, may_sleep));
    delayed::enqueue_unless_pending(queue, &later, long);
    delayed::enqueue_unless_pending(queue, &later, 0);
    check!(!later.ran.wait_timeout(20, may_sleep));
    delayed::enqueue(queue, &later, 0);
    check!(later.ran.wait_timeout(1000, may_sleep));
    check!(!delayed::cancel_sync(&later, may_sleep));
    // This is the only reference.
    check!(Arc::into_unique_or_drop(later).is_some());
    Ok(())
}

/// What runs in a softirq. Not an [`Object`], whose work runs in a process: lockdep takes work of a class that runs in both,
/// and that somebody may wait for, for a deadlock.
#[pin_data]
struct Soft {
    #[pin]
    work: Work<Soft>,
    #[pin]
    ran: Completion,
}

impl_has_work! {
    impl HasWork<Self> for Soft { self.work }
}

impl WorkItem for Soft {
    type Pointer = Arc<Soft>;

    fn run(this: Arc<Soft>) {
        this.ran.complete();
    }
}

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    let object = Object::new(1)?;
    check!(*object.bh.lock() + *object.irq.lock() == 3);
    let guard = object.irq.lock();
    check!(object.irq.try_lock().is_none());
    drop(guard);
    let guard = object.bh.lock();
    check!(object.bh.try_lock().is_none());
    drop(guard);

    let soft = Arc::pin_init(
        pin_init!(Soft {
            work <- new_work!("Soft::work"),
            ran <- Completion::new(),
        }),
        GFP_KERNEL,
    )?;
    check!(work::enqueue(workqueue::system_bh(), &soft));
    check!(soft.ran.wait_timeout(1000, may_sleep));

    let queue = OwnedQueue::new(c"kernel_ext_test", QueueFlags::UNBOUND, 0, may_sleep)?;
    check!(sleepable::enqueue(&queue, &object));
    object.called.wait(may_sleep);
    sleepable::flush(&object, may_sleep);
    check!(object.calls.load(SeqCst) == 1);
    sleepable::enqueue(&queue, &object);
    sleepable::cancel_sync(&object, may_sleep);
    test_delayed(&queue, may_sleep)?;
    queue.flush(may_sleep);
    drop(queue);
    drop(object);
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}
