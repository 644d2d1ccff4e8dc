// SPDX-License-Identifier: GPL-2.0

//! The interface of a driver of an RDMA device: the methods that it implements ([`Provider`](crate::Provider)) and
//! their arguments. C header: `include/rdma/ib_verbs.h`.

pub mod ah;
pub mod counter;
pub mod cq;
pub mod data;
pub mod device;
pub mod dm;
pub mod dmabuf;
pub mod event;
pub mod extent;
pub mod gid;
pub mod link;
pub mod methods;
pub mod mr;
pub mod object;
pub mod odp;
mod ops;
pub mod port;
pub mod qp;
pub mod register;
pub mod srq;
pub mod stats;
pub mod sysfs;
pub mod ucontext;
pub mod udata;
pub mod umem;
pub mod wc;
pub mod wr;
pub mod xrcd;
