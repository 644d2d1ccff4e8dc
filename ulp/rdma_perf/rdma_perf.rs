// SPDX-License-Identifier: GPL-2.0

//! rdma_perf: an RDMA performance test inside of the kernel.
//!
//! A client and a server, in this kernel or in two, do SENDs, RDMA READs and WRITEs and atomics; they post and poll in a
//! thread, a softirq, a hard interrupt, or under a spin lock with interrupts off. It measures `post_send` and `poll_cq`
//! without system calls.
//!
//! `rdma_perf` connects its queue pairs by an out-of-band exchange, which any `ib_core` can; `rdma_perf_cm` is the same module
//! with connections of `rdma_cm`. The module `connect` is the difference.

use kernel::prelude::*;
use kernel_ext::module::{process_module, ProcessModule};
use rdma::MaySleep;

mod client;
mod drive;
mod ends;
pub mod histogram;
mod oob;
pub mod options;
pub mod peer;
mod perf;
mod report;
mod role;
mod run;
mod server;
mod waiter;

use oob as connect;

process_module! {
    type: RdmaPerf,
    name: "rdma_perf",
    authors: ["Ferroband"],
    description: "RDMA performance test inside of the kernel",
    license: "GPL",
}

/// The client's name, and that of the folder of debugfs.
const NAME: &CStr = c"rdma_perf";

/// The module.
struct RdmaPerf {
    _perf: perf::Perf,
}

impl ProcessModule for RdmaPerf {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        Ok(Self {
            _perf: perf::Perf::new(sleep)?,
        })
    }
}
