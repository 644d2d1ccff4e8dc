// SPDX-License-Identifier: GPL-2.0
// error: the trait bound `Object: WorkItem<_>` is not satisfied
// error: the trait bound `Object: HasWork<Object, _>` is not satisfied

//! Work that may sleep, queued by the kernel crate, which does not look at the queue.

use kernel::{
    impl_has_work,
    prelude::*,
    sync::Arc,
    workqueue::{self, Work},
};
use kernel_ext::{
    context::MaySleep,
    sleepable::{Sleepable, SleepableWork},
};

/// Has work that may sleep.
#[pin_data]
pub struct Object {
    #[pin]
    work: Work<Sleepable<Object>>,
}

impl_has_work! { impl HasWork<Sleepable<Self>> for Object { self.work } }

impl SleepableWork for Object {
    fn run(_this: Arc<Self>, sleep: &MaySleep) {
        sleep.check();
    }
}

/// Queues it.
pub fn queue(object: Arc<Object>) {
    let _ = workqueue::system_bh().enqueue(object);
}
