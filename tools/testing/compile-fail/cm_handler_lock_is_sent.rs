// SPDX-License-Identifier: GPL-2.0
// crate: rdma_user_cm
// error: cannot be sent between threads safely
// error: cannot be shared between threads safely

//! The handler lock of an identifier goes to another task than the one that took it.

use rdma_user_cm::Quiet;

/// What another task takes.
pub fn needs_send<T: Send>(_value: T) {}

/// Sends the lock.
pub fn send(quiet: Quiet<'static>) {
    needs_send(quiet);
}
