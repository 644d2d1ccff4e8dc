// SPDX-License-Identifier: GPL-2.0

//! What the `kernel` crate lacks and the RDMA stack needs.
//!
//! Everything here is safe to use; what is unsafe inside is proved where it stands. The shape follows `rust/kernel`:
//! wrappers are transparent over the C type, reference counts are `ARef`, locks are backends of
//! [`kernel::sync::lock::Lock`].
//!
//! Functions that may sleep take a [`MaySleep`](context::MaySleep) token: see [`context`].

pub mod chrdev;
pub mod cmutex;
pub mod context;
pub mod crc32;
pub mod debugfs;
pub mod deferred_drop;
pub mod delayed;
pub mod door;
pub mod error;
pub mod export;
pub mod fasync;
pub mod file_ops;
pub mod gfp;
pub mod interrupt;
pub mod module;
pub mod net;
pub mod page;
pub mod param;
pub mod random;
pub mod rcu_box;
pub mod revocable;
pub mod roll;
pub mod rwsem;
pub mod shared;
pub mod srcu;
pub mod sync;
pub mod sysfs;
pub mod timer;
pub mod uses;
pub mod work;
pub mod xarray;

/// The C interface, for the crates of `rust/` and for doors.
pub use rdma_bindings as bindings;

/// Prefix of this crate's own messages.
const __LOG_PREFIX: &[u8] = b"kernel_ext\0";
