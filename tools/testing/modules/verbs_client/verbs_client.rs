// SPDX-License-Identifier: GPL-2.0

//! Tests what a device offers to clients in Rust, between each pair of devices: objects, requests, handlers, events, contexts.
//!
//! It runs when it is loaded. Its results are in the kernel log, as `pass|NAME`, `fail|NAME|WHY`, or `known|NAME|WHY` for a failure
//! that the stock driver is known to have; then `done`.
//!
//! `part=1` tests only shared receive queues, `part=2` only the destruction of objects, for drivers whose methods for it fail:
//! failing_ops makes them fail.
//!
//! A device that is not a RoCE device is assumed to be that of `fake_verbs`.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/clients/verbs_client.sh and verbs_client_ends.sh load it.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use kernel::prelude::*;
use kernel_ext::{
    module::{process_module, ProcessModule},
    param::{bool_param, int_param},
};
use rdma::{
    client::{
        table::{Registration, Table},
        Client, Device,
    },
    MaySleep,
};

mod connected;
mod contexts;
mod datagram;
mod ends;
mod events;
mod memory;
mod polling;
mod probe;
mod shared;
mod states;

process_module! {
    type: Test,
    name: "verbs_client",
    authors: ["Ferroband"],
    description: "Drives the API of RDMA clients in Rust",
    license: "GPL",
}

/// The port of all devices here.
const PORT: u32 = 1;

/// Whether address handles are created in interrupts too. The stock `rdma_rxe` takes the lock of its table without disabling
/// interrupts.
static AH_IN_INTERRUPTS: AtomicBool = AtomicBool::new(true);
bool_param!(
    c"ah_in_interrupts",
    AH_IN_INTERRUPTS,
    b"parmtype=ah_in_interrupts:bool\0parm=ah_in_interrupts:Make address handles in interrupts\0"
);

/// The part that is tested alone.
static PART: AtomicI32 = AtomicI32::new(0);
int_param!(
    c"part",
    PART,
    b"parmtype=part:int\0parm=part:1 only shared receive queues, 2 only how objects end\0"
);

/// Runs a test, and logs its result. The test has its own stack frame.
#[inline(never)]
fn report(name: &str, test: impl FnOnce() -> Result) {
    match test() {
        Ok(()) => pr_info!("pass|{name}\n"),
        Err(error) => pr_info!("fail|{name}|{error:?}\n"),
    }
}

/// As [`report`], for a test that is known to fail with the stock driver.
#[inline(never)]
fn report_known(name: &str, test: impl FnOnce() -> Result) {
    match test() {
        Ok(()) => pr_info!("pass|{name}\n"),
        Err(error) => pr_info!("known|{name}|{error:?}\n"),
    }
}

/// Fails and logs a message if a condition is false.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            ::kernel::pr_info!("  {}\n", ::core::format_args!($($why)+));
            return Err(::kernel::error::code::EIO);
        }
    };
}
pub(crate) use ensure;

struct TestClient;

static TABLE: Table<TestClient> = Table::new();

impl Client for TestClient {
    type Data<'d> = ();

    const NAME: &'static CStr = c"verbs_client";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(_device: &Device<'d>, _sleep: &MaySleep) -> Result {
        Ok(())
    }
}

/// All tests from a device to another.
fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    match PART.load(Ordering::Relaxed) {
        1 => return shared::run(from, to, sleep),
        2 => return ends::run(from, to, sleep),
        _ => {}
    }
    polling::run(from, to, sleep);
    connected::run(from, to, sleep);
    memory::run(from, to, sleep);
    datagram::run(from, to, sleep);
    shared::run(from, to, sleep);
    states::run(from, to, sleep);
    events::run(from, to, sleep);
    contexts::run(from, to, sleep);
}

/// The module.
struct Test {
    _client: Registration<TestClient>,
}

impl ProcessModule for Test {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let client = TABLE.register(sleep)?;
        client.visit::<()>(
            |from, (), sleep| {
                if !from.is_roce(PORT) {
                    if PART.load(Ordering::Relaxed) == 0 {
                        events::by_careless_driver(from, sleep);
                    }
                    return None;
                }
                client.visit::<()>(
                    |to, (), sleep| {
                        // Names may change, GUIDs do not.
                        if to.is_roce(PORT) && from.node_guid() < to.node_guid() {
                            run(from, to, sleep);
                        }
                        None
                    },
                    sleep,
                )
            },
            sleep,
        );
        pr_info!("done\n");
        Ok(Self { _client: client })
    }
}
