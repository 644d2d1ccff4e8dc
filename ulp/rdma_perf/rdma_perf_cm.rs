// SPDX-License-Identifier: GPL-2.0

//! rdma_perf_cm: `rdma_perf` with connections of `rdma_cm`. It is a separate module because it depends on `rdma_cm.ko`.

use kernel::prelude::*;
use kernel_ext::module::{process_module, ProcessModule};
use rdma::MaySleep;

mod client;
mod cm;
mod drive;
mod ends;
pub mod histogram;
pub mod options;
mod perf;
mod report;
mod role;
mod run;
mod server;
mod waiter;

use cm as connect;

process_module! {
    type: RdmaPerfCm,
    name: "rdma_perf_cm",
    authors: ["Ferroband"],
    description: "RDMA performance test inside of the kernel, over rdma_cm",
    license: "GPL",
}

/// The client's name, and that of the folder of debugfs.
const NAME: &CStr = c"rdma_perf_cm";

/// The module.
struct RdmaPerfCm {
    _perf: perf::Perf,
}

impl ProcessModule for RdmaPerfCm {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        Ok(Self {
            _perf: perf::Perf::new(sleep)?,
        })
    }
}
