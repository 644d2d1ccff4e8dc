// SPDX-License-Identifier: GPL-2.0

//! Drives all that clients in Rust have of a device, between each two devices that there are: objects, requests, handlers,
//! events, contexts.
//!
//! It runs when it is loaded. Results stand in the kernel log, as `pass|NAME` and `fail|NAME|WHY`; then `done`.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/verbs_client.sh loads it.

use kernel::prelude::*;
use rdma::{
    verbs::{
        client::{Registration, Table},
        Client, Device,
    },
    MaySleep,
};

mod connected;
mod contexts;
mod datagram;
mod memory;
mod polling;
mod probe;
mod shared;
mod states;

module! {
    type: Test,
    name: "verbs_client",
    authors: ["Ferroband"],
    description: "Drives the API of RDMA clients in Rust",
    license: "GPL",
}

/// The port of all devices here.
const PORT: u32 = 1;

/// Says how a test has ended.
fn report(name: &str, result: Result) {
    match result {
        Ok(()) => pr_info!("pass|{name}\n"),
        Err(error) => pr_info!("fail|{name}|{error:?}\n"),
    }
}

/// Fails, and says why, where something does not hold.
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

    fn add<'d>(device: &Device<'d>, _sleep: &MaySleep) -> Result {
        if !device.is_roce(PORT) {
            return Err(ENODEV);
        }
        Ok(())
    }
}

/// All tests from a device to another.
fn run(from: &Device<'_>, to: &Device<'_>, sleep: &MaySleep) {
    polling::run(from, to, sleep);
    connected::run(from, to, sleep);
    memory::run(from, to, sleep);
    datagram::run(from, to, sleep);
    shared::run(from, to, sleep);
    states::run(from, to, sleep);
    contexts::run(from, to, sleep);
}

/// The module.
struct Test {
    _client: Registration<TestClient>,
}

impl kernel::Module for Test {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        let client = TABLE.register(sleep)?;
        client.visit::<()>(
            |from, (), sleep| {
                client.visit::<()>(
                    |to, (), sleep| {
                        // Names may change, GUIDs do not.
                        if from.node_guid() < to.node_guid() {
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
