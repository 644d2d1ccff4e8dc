// SPDX-License-Identifier: GPL-2.0

//! rdma_perf_cm: `rdma_perf`, with queue pairs that `rdma_cm` connects. A module of its own, since it needs that one.

use kernel::prelude::*;
use kernel_ext::module::{process_module, ProcessModule};
use rdma::MaySleep;

mod client;
mod cm;
mod drive;
mod ends;
pub mod histogram;
mod once;
pub mod options;
mod perf;
mod report;
mod role;
mod run;
mod server;

use cm as wire;

process_module! {
    type: RdmaPerfCm,
    name: "rdma_perf_cm",
    authors: ["Ferroband"],
    description: "How fast RDMA is for users in the kernel, over rdma_cm",
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
