// SPDX-License-Identifier: GPL-2.0

//! Runs, as they are asked for by files: see `README.md`.
//!
//! * `run`: words `KEY=VALUE` are written to it by one `write`, which returns when the run is over. What is not understood gets
//!   `EINVAL`, and nothing changes; so does a device that there is not, with `ENODEV`, and a run while another one of this
//!   folder goes on, with `EBUSY`.
//! * `result`: what the last run that came to its end was like, and what it has measured: lines `KEY=VALUE`. Empty before.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Runner::running` | that one run of a folder at a time goes on | process | `Runner::last`, `Desk::state`, and what making objects takes |
//! | `Runner::last` | the result of the last run | process | nothing |

use core::sync::atomic::{AtomicBool, Ordering::Release};

use kernel::{
    new_mutex,
    prelude::*,
    seq_file::SeqFile,
    sync::{Arc, Mutex},
};
use kernel_ext::debugfs::{self, Control, Dir, Files};
use rdma::{
    client::{
        table::{Registration, Table},
        Client, Device,
    },
    MaySleep,
};

use crate::{
    drive::{self, Report},
    ends::PORT,
    options::{self, Name, Options},
    report,
    role::Role,
    run::Patience,
    wire::{self, Desk, MoreFiles},
    NAME,
};

/// The client of devices.
struct User;

static USERS: Table<User> = Table::new();

impl Client for User {
    /// Whether the device goes, so that a run must end.
    type Data<'d> = Arc<AtomicBool>;

    const NAME: &'static CStr = NAME;

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

/// Does the runs of a folder.
pub(crate) struct Runner {
    role: Role,
    users: Arc<Registration<User>>,
    running: Pin<KBox<Mutex<()>>>,
    last: Pin<KBox<Mutex<Option<Report>>>>,
    desk: Arc<Desk>,
}

/// Whether a device is the one with the name; any is, where there is none.
fn is_named(device: &Device<'_>, name: &Name) -> bool {
    name.bytes()
        .is_none_or(|name| device.name().to_bytes() == name)
}

/// The same with the names of the devices.
fn named(options: Options, client: Option<&Device<'_>>, server: Option<&Device<'_>>) -> Options {
    let name = |device: Option<&Device<'_>>| Name::new(device?.name().to_bytes());
    Options {
        client: name(client).unwrap_or(options.client),
        server: name(server).unwrap_or(options.server),
        ..options
    }
}

impl Runner {
    fn new(role: Role, users: &Arc<Registration<User>>) -> Result<Arc<Self>> {
        let runner = Self {
            role,
            users: users.clone(),
            running: KBox::pin_init(new_mutex!((), "Runner::running"), GFP_KERNEL)?,
            last: KBox::pin_init(new_mutex!(None, "Runner::last"), GFP_KERNEL)?,
            desk: Arc::new(Desk::new()?, GFP_KERNEL)?,
        };
        Ok(Arc::new(runner, GFP_KERNEL)?)
    }

    /// Calls `f` with the device of that name.
    fn with(
        &self,
        name: &Name,
        f: impl for<'d> Fn(&Device<'d>, &AtomicBool, &MaySleep) -> Result<Report>,
        sleep: &MaySleep,
    ) -> Result<Report> {
        let found = self.users.visit(
            |device, gone, sleep| is_named(device, name).then(|| f(device, gone, sleep)),
            sleep,
        );
        found.ok_or(ENODEV)?
    }

    /// Finds the devices, and does a run.
    fn run(&self, options: Options, sleep: &MaySleep) -> Result<Report> {
        let desk = &self.desk;
        match self.role {
            Role::Both => self.with(
                &options.client,
                |client, gone, sleep| self.run_both(options, client, gone, sleep),
                sleep,
            ),
            Role::Client => self.with(
                &options.client,
                |device, gone, sleep| {
                    let patience = Patience { gone: [gone; 2] };
                    let options = named(options, Some(device), None);
                    drive::client(options, device, desk, patience, sleep)
                },
                sleep,
            ),
            Role::Server => self.with(
                &options.server,
                |device, gone, sleep| {
                    let patience = Patience { gone: [gone; 2] };
                    let options = named(options, None, Some(device));
                    drive::server(options, device, desk, patience, sleep)
                },
                sleep,
            ),
        }
    }

    /// Finds the server's device, and does a run with both ends.
    fn run_both(
        &self,
        options: Options,
        client: &Device<'_>,
        client_gone: &AtomicBool,
        sleep: &MaySleep,
    ) -> Result<Report> {
        if options.server.bytes().is_none() {
            let patience = Patience {
                gone: [client_gone; 2],
            };
            let options = named(options, Some(client), Some(client));
            return drive::both(options, client, client, patience, sleep);
        }
        self.with(
            &options.server,
            |server, server_gone, sleep| {
                let patience = Patience {
                    gone: [client_gone, server_gone],
                };
                let options = named(options, Some(client), Some(server));
                drive::both(options, client, server, patience, sleep)
            },
            sleep,
        )
    }
}

/// The files `run` and `result`.
struct RunFiles(Arc<Runner>);

static RUN_FILES: debugfs::Table<RunFiles> = debugfs::Table::new(&crate::THIS_MODULE);

impl Control for RunFiles {
    const WRITTEN: &'static CStr = c"run";
    const READ: &'static CStr = c"result";
    const MAX_TEXT: usize = options::MAX_TEXT;

    fn table() -> &'static debugfs::Table<Self> {
        &RUN_FILES
    }

    fn write(&self, text: &[u8], sleep: &MaySleep) -> Result {
        let runner = &self.0;
        let options = Options::parse(text, runner.role.keys()).ok_or(EINVAL)?;
        let _alone = runner.running.try_lock().ok_or(EBUSY)?;
        let outcome = runner.run(options, sleep);
        runner.desk.clear();
        *runner.last.lock() = Some(outcome?);
        Ok(())
    }

    fn print(&self, to: &SeqFile, _sleep: &MaySleep) {
        let last = *self.0.last.lock();
        if let Some(report) = last {
            report::print(&report, self.0.role, to);
        }
    }
}

/// The folder of the module, as long as this is there.
pub(crate) struct Perf {
    _both: Files<RunFiles>,
    _client: (Files<RunFiles>, MoreFiles),
    _server: (Files<RunFiles>, MoreFiles),
}

/// A folder of a single end.
fn single(
    name: &CStr,
    role: Role,
    top: &Arc<Dir>,
    users: &Arc<Registration<User>>,
    sleep: &MaySleep,
) -> Result<(Files<RunFiles>, MoreFiles)> {
    let folder = Dir::new(name, Some(top), sleep)?;
    let runner = Runner::new(role, users)?;
    let more = wire::more_files(&folder, &runner.desk, sleep)?;
    Ok((Files::new(&folder, RunFiles(runner), sleep)?, more))
}

impl Perf {
    /// Makes the folder.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what registering with the core fails with.
    pub(crate) fn new(sleep: &MaySleep) -> Result<Self> {
        let users = Arc::new(USERS.register(sleep)?, GFP_KERNEL)?;
        let top = Dir::new(NAME, None, sleep)?;
        let runner = Runner::new(Role::Both, &users)?;
        Ok(Self {
            _both: Files::new(&top, RunFiles(runner), sleep)?,
            _client: single(c"client", Role::Client, &top, &users, sleep)?,
            _server: single(c"server", Role::Server, &top, &users, sleep)?,
        })
    }
}
