// SPDX-License-Identifier: GPL-2.0

//! What of `ulp/rdma_perf` needs no kernel.

#![no_std]

#[path = "../../../../ulp/rdma_perf/histogram.rs"]
pub mod histogram;
#[path = "../../../../ulp/rdma_perf/options.rs"]
pub mod options;
#[path = "../../../../ulp/rdma_perf/peer.rs"]
pub mod peer;
