// SPDX-License-Identifier: GPL-2.0

//! rdma_perf: how fast RDMA is for users in the kernel. A client and a server, both in this kernel, on one device or on two,
//! send messages, write, read, and do atomic operations; posting and polling in a thread, a softirq, a hard interrupt, or
//! under a spin lock with interrupts off. So it is the measure of what `post_send` and `poll_cq` cost, without system calls.
//!
//! It is controlled by two files in `/sys/kernel/debug/rdma_perf/`:
//!
//! * `run`: words `KEY=VALUE`, see `README.md`, are written to it by one `write`, which returns when the run is over. What is
//!   not understood gets `EINVAL`, and nothing changes; so does a device that there is not, with `ENODEV`, and a run while
//!   another one goes on, with `EBUSY`.
//! * `result`: what the last run that came to its end was like, and what it has measured: lines `KEY=VALUE`. Empty before.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Perf::running` | that one run at a time goes on | process | `Perf::last`, and what making objects takes |
//! | `Perf::last` | the result of the last run | process | nothing |

use core::sync::atomic::{AtomicBool, Ordering::Release};

use kernel::{
    new_mutex,
    prelude::*,
    seq_file::SeqFile,
    sync::{Arc, Mutex},
};
use kernel_ext::debugfs::{self, Control, Folder};
use rdma::{
    verbs::{
        self,
        client::{Registration, Table},
        Device,
    },
    MaySleep,
};

mod client;
mod drive;
mod ends;
pub mod histogram;
pub mod options;
mod report;
mod run;
mod server;

use drive::{drive, Report};
use options::{Name, Options};

module! {
    type: RdmaPerf,
    name: "rdma_perf",
    authors: ["Ferroband"],
    description: "How fast RDMA is for users in the kernel",
    license: "GPL",
}

const _: () = assert!(debugfs::MAX_TEXT == options::MAX_TEXT);

const PORT: u32 = 1;

/// The client of devices.
struct User;

static USERS: Table<User> = Table::new();

impl verbs::Client for User {
    /// Whether the device goes, so that a run must end.
    type Data<'d> = Arc<AtomicBool>;

    const NAME: &'static CStr = c"rdma_perf";

    fn table() -> &'static Table<Self> {
        &USERS
    }

    fn add<'d>(device: &Device<'d>, _sleep: &MaySleep) -> Result<Arc<AtomicBool>> {
        if !device.is_roce(PORT) {
            return Err(ENODEV);
        }
        Ok(Arc::new(AtomicBool::new(false), GFP_KERNEL)?)
    }

    fn remove<'d>(_device: &Device<'d>, gone: &Arc<AtomicBool>, _sleep: &MaySleep) {
        gone.store(true, Release);
    }
}

/// What is controlled.
struct Perf {
    users: Registration<User>,
    running: Pin<KBox<Mutex<()>>>,
    last: Pin<KBox<Mutex<Option<Report>>>>,
}

static FILES: debugfs::Table<Perf> = debugfs::Table::new(&THIS_MODULE);

/// Whether a device is the one with the name; any is, where there is none.
fn is_named(device: &Device<'_>, name: &Name) -> bool {
    name.bytes()
        .is_none_or(|name| device.name().to_bytes() == name)
}

impl Perf {
    /// Finds the devices, and does a run.
    fn run_on_devices(&self, options: Options, sleep: &MaySleep) -> Result<Report> {
        let found = self.users.visit(
            |client, gone, sleep| {
                is_named(client, &options.client)
                    .then(|| self.run_from(options, client, gone, sleep))
            },
            sleep,
        );
        found.ok_or(ENODEV)?
    }

    /// Finds the server's device, and does a run.
    fn run_from(
        &self,
        options: Options,
        client: &Device<'_>,
        client_gone: &AtomicBool,
        sleep: &MaySleep,
    ) -> Result<Report> {
        if options.server.bytes().is_none() {
            return drive(options, client, client, [client_gone, client_gone], sleep);
        }
        let found = self.users.visit(
            |server, server_gone, sleep| {
                is_named(server, &options.server)
                    .then(|| drive(options, client, server, [client_gone, server_gone], sleep))
            },
            sleep,
        );
        found.ok_or(ENODEV)?
    }
}

impl Control for Perf {
    fn table() -> &'static debugfs::Table<Self> {
        &FILES
    }

    fn run(&self, text: &[u8], sleep: &MaySleep) -> Result {
        let options = Options::parse(text).ok_or(EINVAL)?;
        let _alone = self.running.try_lock().ok_or(EBUSY)?;
        let report = self.run_on_devices(options, sleep)?;
        *self.last.lock() = Some(report);
        Ok(())
    }

    fn result(&self, to: &SeqFile, _sleep: &MaySleep) {
        let last = *self.last.lock();
        if let Some(report) = last {
            report::print(&report, to);
        }
    }
}

/// The module.
struct RdmaPerf {
    _files: Folder<Perf>,
}

impl kernel::Module for RdmaPerf {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        let perf = Perf {
            users: USERS.register(sleep)?,
            running: KBox::pin_init(new_mutex!((), "Perf::running"), GFP_KERNEL)?,
            last: KBox::pin_init(new_mutex!(None, "Perf::last"), GFP_KERNEL)?,
        };
        Ok(Self {
            _files: Folder::new(c"rdma_perf", perf, sleep)?,
        })
    }
}
