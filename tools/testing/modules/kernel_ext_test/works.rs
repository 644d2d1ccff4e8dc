// SPDX-License-Identifier: GPL-2.0

//! Work and locks.

use super::*;
use kernel::workqueue::{self, impl_has_work, new_work, Work, WorkItem};
use kernel_ext::work::{self, OwnedQueue, QueueFlags};

impl_has_work! {
    impl HasWork<Self> for Object { self.work }
}

impl WorkItem for Object {
    type Pointer = Arc<Object>;

    fn run(this: Arc<Object>) {
        this.call();
    }
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
    check!(work::enqueue(&queue, &object));
    object.called.wait(may_sleep);
    work::flush(&object, may_sleep);
    check!(object.calls.load(SeqCst) == 1);
    work::enqueue(&queue, &object);
    work::cancel_sync(&object, may_sleep);
    queue.flush(may_sleep);
    drop(queue);
    drop(object);
    check!(LIVE.load(SeqCst) == 0);
    Ok(())
}
