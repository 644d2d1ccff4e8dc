// SPDX-License-Identifier: GPL-2.0

//! A module that sleeps where it is loaded and unloaded, and whose work sleeps.

use kernel::{impl_has_work, new_work, prelude::*, sync::Arc, workqueue::Work};
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
    sleepable::{self, Sleepable, SleepableWork},
    work::{OwnedQueue, QueueFlags},
};

process_module! {
    type: Example,
    name: "process_module_compiles",
    authors: ["Ferroband"],
    description: "An example",
    license: "GPL",
}

#[pin_data]
struct Object {
    #[pin]
    work: Work<Sleepable<Object>>,
}

impl_has_work! { impl HasWork<Sleepable<Self>> for Object { self.work } }

impl SleepableWork for Object {
    fn run(_this: Arc<Self>, sleep: &MaySleep) {
        sleep.check();
    }
}

struct Example {
    object: Arc<Object>,
    queue: OwnedQueue,
}

impl ProcessModule for Example {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let init = pin_init!(Object { work <- new_work!("Object::work") });
        let example = Self {
            object: Arc::pin_init(init, GFP_KERNEL)?,
            queue: OwnedQueue::new(c"example", QueueFlags::UNBOUND, 0, sleep)?,
        };
        sleepable::enqueue(&example.queue, &example.object);
        Ok(example)
    }

    fn exit(self, sleep: &MaySleep) {
        sleepable::cancel_sync(&self.object, sleep);
    }
}
