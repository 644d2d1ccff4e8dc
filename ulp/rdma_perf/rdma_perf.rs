// SPDX-License-Identifier: GPL-2.0

//! rdma_perf: how fast RDMA is for users in the kernel. A client and a server, in this kernel or each in another one, on one
//! device or on two, send messages, write, read, and do atomic operations; posting and polling in a thread, a softirq, a hard
//! interrupt, or under a spin lock with interrupts off. So it is the measure of what `post_send` and `poll_cq` cost, without
//! system calls.
//!
//! There are two modules of the same: here queue pairs are wired by hand, which any `ib_core` can; those of `rdma_perf_cm` are
//! connected by `rdma_cm`. Which it is, `wire` says.

use kernel::prelude::*;
use kernel_ext::module::{process_module, ProcessModule};
use rdma::MaySleep;

mod client;
mod drive;
mod ends;
mod hand;
pub mod histogram;
mod once;
pub mod options;
pub mod peer;
mod perf;
mod report;
mod role;
mod run;
mod server;

use hand as wire;

process_module! {
    type: RdmaPerf,
    name: "rdma_perf",
    authors: ["Ferroband"],
    description: "How fast RDMA is for users in the kernel",
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
