// SPDX-License-Identifier: GPL-2.0

//! Model checks of the scheduling of a queue pair's engine, with loom.
//!
//! The driver's own files, with loom's locks and atomics in place of the kernel's: loom runs each model in every order that its
//! threads can take, up to a number of preemptions. What is not the driver's file is a queue pair with little in it (`qp.rs`)
//! and the kernel as far as these files use it (`kernel.rs`).

#![cfg(test)]
#![allow(dead_code, reason = "of each file of the driver only a part is used")]

// The driver's files name these crates.
extern crate self as kernel;
extern crate self as kernel_ext;

#[path = "kernel.rs"]
mod shim;

pub use shim::*;

pub mod net {
    pub use crate::shim::skbs::skb;
    pub use crate::shim::skbs::skb_list;
}

/// Of the kernel's `sync`, the driver's `sync`, and that of `kernel_ext`.
pub mod sync {
    pub use crate::shim::locks::*;
    pub use loom::sync::atomic::{AtomicBool, Ordering};
    pub use std::sync::Arc;
}

#[path = "../../../../hw/rxe/backlog.rs"]
mod backlog;
#[path = "../../../../hw/rxe/doorbell.rs"]
mod doorbell;
#[path = "../../../../hw/rxe/wqe/inbox.rs"]
mod inbox;
#[path = "../../../../hw/rxe/port_id.rs"]
mod port_id;
mod qp;
#[path = "../../../../hw/rxe/wqe/slots.rs"]
mod slots;

use inbox::Inbox;
use slots::Slots;

mod doorbells;
mod inboxes;
mod packets;

/// Runs a model in every order of its threads, with up to so many preemptions.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
