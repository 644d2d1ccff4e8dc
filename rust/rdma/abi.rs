// SPDX-License-Identifier: GPL-2.0

//! Values and layouts of the C interface that drivers, the core and clients share: `include/rdma/*.h`.

#[macro_use]
mod flags;

pub mod mad;
pub mod pack;
