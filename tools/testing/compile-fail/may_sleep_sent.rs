// SPDX-License-Identifier: GPL-2.0
// error: `*mut ()` cannot be sent between threads safely

//! A token that goes to another thread.

use kernel_ext::context::MaySleep;

/// Takes what can go to another thread.
pub fn send<T: Send>(_value: T) {}

/// Sends the token.
pub fn give(may_sleep: MaySleep) {
    send(may_sleep);
}
