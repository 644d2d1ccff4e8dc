// SPDX-License-Identifier: GPL-2.0

//! Abstractions that the RDMA stack needs and the `kernel` crate lacks.
//!
//! All safe functions here are sound to call; unsafe code has its proof beside it. Conventions follow `rust/kernel`:
//! wrappers are transparent over the C type, reference counts are `ARef`, locks are backends of
//! [`kernel::sync::lock::Lock`].
//!
//! Functions that may sleep take a [`MaySleep`](context::MaySleep) token: see [`context`].

pub mod char_node;
pub mod chrdev;
pub mod cmutex;
pub mod compat;
pub mod context;
pub mod crc32;
pub mod debugfs;
pub mod deferred_drop;
pub mod delayed;
pub mod entry;
pub mod error;
pub mod export;
pub mod fasync;
pub mod file_ops;
pub mod gfp;
pub mod interrupt;
pub mod misc;
pub mod module;
pub mod net;
pub mod page;
pub mod param;
pub mod random;
pub mod rcu_box;
pub mod revocable;
pub mod room;
pub mod rwsem;
pub mod shared;
pub mod shared_bytes;
pub mod sleepable;
pub mod srcu;
pub mod static_lock;
pub mod static_vec;
pub mod sync;
pub mod sysctl;
pub mod sysfs;
pub mod timer;
pub mod uses;
pub mod work;
pub mod xarray;
pub mod zeroed;

/// The C interface, for the crates in `rust/` and for exported functions.
pub use rdma_bindings as bindings;

/// Prefix of this crate's messages.
const __LOG_PREFIX: &[u8] = b"kernel_ext\0";
