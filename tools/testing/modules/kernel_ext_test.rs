// SPDX-License-Identifier: GPL-2.0

//! Tests of the crate `kernel_ext`, run when the module is loaded: loading fails if one of them does.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/common/kernel_ext.sh loads it.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
    sleepable::Sleepable,
    sync::{new_spinlock_bh, new_spinlock_irq, Completion, SpinLockBh, SpinLockIrq},
    timer::{impl_has_timer, OnTimer, Timer},
};

#[path = "kernel_ext_test/memory.rs"]
mod memory;
#[path = "kernel_ext_test/packets.rs"]
mod packets;
#[path = "kernel_ext_test/tables.rs"]
mod tables;
#[path = "kernel_ext_test/timers.rs"]
mod timers;
#[path = "kernel_ext_test/works.rs"]
mod works;

process_module! {
    type: KernelExtTest,
    name: "kernel_ext_test",
    authors: ["Ferroband"],
    description: "Tests of kernel_ext",
    license: "GPL",
}

/// Fails the test, with a line in the log, unless the condition holds.
macro_rules! check {
    ($($condition:tt)*) => {
        if !($($condition)*) {
            pr_err!("failed, line {}: {}\n", line!(), stringify!($($condition)*));
            return Err(EINVAL);
        }
    };
}
use check;

/// The number of [`Object`]s that exist.
static LIVE: AtomicUsize = AtomicUsize::new(0);

/// An object that the tests add to tables, whose work they queue, and whose timer they arm.
#[pin_data(PinnedDrop)]
struct Object {
    number: u32,
    /// The number of times that its timer has expired, or its work has run.
    calls: AtomicUsize,
    #[pin]
    called: Completion,
    #[pin]
    timer: Timer<Object>,
    #[pin]
    work: kernel::workqueue::Work<Sleepable<Object>>,
    #[pin]
    bh: SpinLockBh<u32>,
    #[pin]
    irq: SpinLockIrq<u32>,
}

impl Object {
    fn new(number: u32) -> Result<Arc<Self>> {
        let object = Arc::pin_init(
            pin_init!(Self {
                number,
                calls: AtomicUsize::new(0),
                called <- Completion::new(),
                timer <- Timer::new(),
                work <- kernel::workqueue::new_work!("Object::work"),
                bh <- new_spinlock_bh!(1, "Object::bh"),
                irq <- new_spinlock_irq!(2, "Object::irq"),
            }),
            GFP_KERNEL,
        )?;
        LIVE.fetch_add(1, SeqCst);
        Ok(object)
    }

    fn call(&self) {
        self.calls.fetch_add(1, SeqCst);
        self.called.complete();
    }
}

#[pinned_drop]
impl PinnedDrop for Object {
    fn drop(self: Pin<&mut Self>) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

impl_has_timer! { impl HasTimer<0> for Object { self.timer } }

impl OnTimer for Object {
    fn expired(this: Arc<Self>) {
        this.call();
    }
}

/// Waits a little.
fn pause(milliseconds: u32, may_sleep: &MaySleep) -> Result {
    let never = KBox::pin_init(Completion::new(), GFP_KERNEL)?;
    check!(!never.wait_timeout(milliseconds, may_sleep));
    Ok(())
}

type Test = fn(&MaySleep) -> Result;

struct KernelExtTest;

impl ProcessModule for KernelExtTest {
    fn init(_module: &'static ThisModule, may_sleep: &MaySleep) -> Result<Self> {
        let tests: [(&str, Test); 7] = [
            ("tables", tables::test),
            ("timers", timers::test),
            ("timers against everybody", timers::storm),
            (
                "stopping a timer gives the processor away",
                timers::stop_sleeps,
            ),
            ("works and locks", works::test),
            ("memory", memory::test),
            ("packets", packets::test),
        ];
        let mut failed = 0;
        for (name, test) in tests {
            let result = test(may_sleep);
            if let Err(err) = result {
                failed += 1;
                pr_err!("not ok {name}: {err:?}\n");
            } else {
                pr_info!("ok {name}\n");
            }
        }
        if failed != 0 {
            return Err(EINVAL);
        }
        Ok(Self)
    }
}
