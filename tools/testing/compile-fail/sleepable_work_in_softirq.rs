// SPDX-License-Identifier: GPL-2.0
// error: mismatched types

//! Work that may sleep, on a queue whose work runs in softirq context.

use kernel::{
    impl_has_work,
    prelude::*,
    sync::Arc,
    workqueue::{self, Work},
};
use kernel_ext::{
    context::MaySleep,
    sleepable::{self, Sleepable, SleepableWork},
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
pub fn queue(object: &Arc<Object>) {
    sleepable::enqueue(workqueue::system_bh(), object);
}
