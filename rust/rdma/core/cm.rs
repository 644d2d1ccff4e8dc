// SPDX-License-Identifier: GPL-2.0

//! The structures of the InfiniBand connection manager, for `ib_cm`: identifiers, events, and the parameters of messages.
//!
//! | module | contents |
//! |---|---|
//! | [`id`] | `struct ib_cm_id`: what clients see of an identifier |
//! | [`handler`] | the calls of clients' handlers |
//! | [`event`] | `struct ib_cm_event` |
//! | [`param`] | `struct ib_cm_req_param`, `ib_cm_rep_param`, `ib_cm_sidr_req_param`, `ib_cm_sidr_rep_param`, and the arguments of a refusal |
//! | [`trace`] | tracepoints |
//!
//! C header: `include/rdma/ib_cm.h`.

pub mod event;
pub mod handler;
pub mod id;
pub mod param;
pub mod trace;
