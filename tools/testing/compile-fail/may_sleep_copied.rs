// SPDX-License-Identifier: GPL-2.0
// error: cannot move out of `*may_sleep` which is behind a shared reference

//! A token that outlives the C entry point's call.

use kernel_ext::context::MaySleep;

/// Keeps the token.
pub fn keep(may_sleep: &MaySleep) -> MaySleep {
    *may_sleep
}
