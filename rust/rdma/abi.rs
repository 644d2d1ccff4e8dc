// SPDX-License-Identifier: GPL-2.0

//! Values and layouts of the C interface that drivers, the core and clients share: `include/rdma/*.h`.

#[macro_use]
mod flags;

pub mod access;
pub mod ah;
pub mod cq;
pub mod device;
pub mod event;
pub mod gid;
pub mod mad;
pub mod mr;
pub mod pack;
pub mod port;
pub mod qp;
pub mod srq;
pub mod wc;
pub mod wr;
