// SPDX-License-Identifier: GPL-2.0

//! The RDMA connection manager's side of identifiers: the structures that its clients read, events that they are told, and its calls of
//! the core.
//!
//! | module | contents |
//! |---|---|
//! | [`id`] | `struct rdma_cm_id`, and what belongs to it |
//! | [`handler`] | the handler lock, and calls of handlers |
//! | [`event`] | `struct rdma_cm_event` |
//! | [`param`] | arguments of C |
//! | [`resolve`] | resolving addresses |
//! | [`query`] | questions to the subnet administrator |
//! | [`multicast`] | groups of InfiniBand |
//! | [`qp`] | queue pairs |
//! | [`device`] | what a device tells |
//! | [`trace`] | tracepoints |
//!
//! C header: `include/rdma/rdma_cm.h`.

pub mod device;
pub mod event;
pub mod handler;
pub mod id;
pub mod multicast;
pub mod param;
pub mod qp;
pub mod query;
pub mod resolve;
pub mod trace;
