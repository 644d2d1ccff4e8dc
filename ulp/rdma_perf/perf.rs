// SPDX-License-Identifier: GPL-2.0

//! The debugfs files that start a run and show its result; `README.md` describes them.
//!
//! * `run`: one `write` of `KEY=VALUE` pairs starts a run and returns when it is over. It fails with `EINVAL` for invalid text,
//!   with `ENODEV` for an unknown device, and with `EBUSY` while another run of this folder goes on.
//! * `result`: the options and results of the last successful run, in lines `KEY=VALUE`; empty before.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Runner::running` | that one run of a folder at a time goes on | process | `Runner::last`, `Exchange::state`, and the locks that creating verbs objects takes |
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
    connect::{self, Exchange, ExtraFiles},
    drive::{self, Report},
    ends::PORT,
    options::{self, Name, Options},
    report,
    role::Role,
    run::Cancel,
    NAME,
};

/// The `ib_client`.
struct PerfClient;

static CLIENTS: Table<PerfClient> = Table::new();

impl Client for PerfClient {
    /// Whether the device is being removed, so that a run must end.
    type Data<'d> = Arc<AtomicBool>;

    const NAME: &'static CStr = NAME;

    fn table() -> &'static Table<Self> {
        &CLIENTS
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

/// The state of a folder, which does its runs.
pub(crate) struct Runner {
    role: Role,
    clients: Arc<Registration<PerfClient>>,
    running: Pin<KBox<Mutex<()>>>,
    last: Pin<KBox<Mutex<Option<Report>>>>,
    exchange: Arc<Exchange>,
}

/// Whether a device has the name. Without a name any device matches.
fn is_named(device: &Device<'_>, name: &Name) -> bool {
    name.bytes()
        .is_none_or(|name| device.name().to_bytes() == name)
}

/// The options with the names of the devices that are used.
fn named(options: Options, client: Option<&Device<'_>>, server: Option<&Device<'_>>) -> Options {
    let name = |device: Option<&Device<'_>>| Name::new(device?.name().to_bytes());
    Options {
        client: name(client).unwrap_or(options.client),
        server: name(server).unwrap_or(options.server),
        ..options
    }
}

impl Runner {
    fn new(role: Role, clients: &Arc<Registration<PerfClient>>) -> Result<Arc<Self>> {
        let runner = Self {
            role,
            clients: clients.clone(),
            running: KBox::pin_init(new_mutex!((), "Runner::running"), GFP_KERNEL)?,
            last: KBox::pin_init(new_mutex!(None, "Runner::last"), GFP_KERNEL)?,
            exchange: Arc::new(Exchange::new()?, GFP_KERNEL)?,
        };
        Ok(Arc::new(runner, GFP_KERNEL)?)
    }

    /// Calls `f` with the device that has the name.
    fn with(
        &self,
        name: &Name,
        f: impl for<'d> Fn(&Device<'d>, &AtomicBool, &MaySleep) -> Result<Report>,
        sleep: &MaySleep,
    ) -> Result<Report> {
        let found = self.clients.visit(
            |device, gone, sleep| is_named(device, name).then(|| f(device, gone, sleep)),
            sleep,
        );
        found.ok_or(ENODEV)?
    }

    /// Finds the devices, and does a run.
    fn run(&self, options: Options, sleep: &MaySleep) -> Result<Report> {
        let exchange = &self.exchange;
        match self.role {
            Role::Both => self.with(
                &options.client,
                |client, gone, sleep| self.run_both(options, client, gone, sleep),
                sleep,
            ),
            Role::Client => self.with(
                &options.client,
                |device, gone, sleep| {
                    let cancel = Cancel { gone: [gone; 2] };
                    let options = named(options, Some(device), None);
                    drive::client(options, device, exchange, cancel, sleep)
                },
                sleep,
            ),
            Role::Server => self.with(
                &options.server,
                |device, gone, sleep| {
                    let cancel = Cancel { gone: [gone; 2] };
                    let options = named(options, None, Some(device));
                    drive::server(options, device, exchange, cancel, sleep)
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
            let cancel = Cancel {
                gone: [client_gone; 2],
            };
            let options = named(options, Some(client), Some(client));
            return drive::both(options, client, client, cancel, sleep);
        }
        self.with(
            &options.server,
            |server, server_gone, sleep| {
                let cancel = Cancel {
                    gone: [client_gone, server_gone],
                };
                let options = named(options, Some(client), Some(server));
                drive::both(options, client, server, cancel, sleep)
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
        runner.exchange.clear();
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

/// The debugfs folder of the module, which exists until this is dropped.
pub(crate) struct Perf {
    _both: Files<RunFiles>,
    _client: (Files<RunFiles>, ExtraFiles),
    _server: (Files<RunFiles>, ExtraFiles),
}

/// Creates the folder of a single end.
fn single(
    name: &CStr,
    role: Role,
    top: &Arc<Dir>,
    clients: &Arc<Registration<PerfClient>>,
    sleep: &MaySleep,
) -> Result<(Files<RunFiles>, ExtraFiles)> {
    let folder = Dir::new(name, Some(top), sleep)?;
    let runner = Runner::new(role, clients)?;
    let more = connect::extra_files(&folder, &runner.exchange, sleep)?;
    Ok((Files::new(&folder, RunFiles(runner), sleep)?, more))
}

impl Perf {
    /// Creates the folders and files.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of `ib_register_client()`.
    pub(crate) fn new(sleep: &MaySleep) -> Result<Self> {
        let clients = Arc::new(CLIENTS.register(sleep)?, GFP_KERNEL)?;
        let top = Dir::new(NAME, None, sleep)?;
        let runner = Runner::new(Role::Both, &clients)?;
        Ok(Self {
            _both: Files::new(&top, RunFiles(runner), sleep)?,
            _client: single(c"client", Role::Client, &top, &clients, sleep)?,
            _server: single(c"server", Role::Server, &top, &clients, sleep)?,
        })
    }
}
