// SPDX-License-Identifier: GPL-2.0

//! The structures of the iWARP connection manager, for `iw_cm`: identifiers, events, and the methods of drivers for connections.
//!
//! | module | contents |
//! |---|---|
//! | [`id`] | `struct iw_cm_id`: what clients and drivers see of an identifier |
//! | [`event`] | `struct iw_cm_event` |
//! | [`verbs`] | the methods `iw_*` of a driver, and the queue pair of a connection |
//! | [`address`] | socket addresses |
//!
//! C header: `include/rdma/iw_cm.h`.

pub mod address;
pub mod event;
pub mod id;
pub mod verbs;
