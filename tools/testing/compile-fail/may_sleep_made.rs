// SPDX-License-Identifier: GPL-2.0
// error: MaySleep::assume` is unsafe and requires unsafe

//! A token that safe code makes for itself.

use kernel_ext::{context::MaySleep, sync::rcu};

/// Waits for readers.
pub fn wait() {
    rcu::synchronize(&MaySleep::assume());
}
