// SPDX-License-Identifier: GPL-2.0

//! How many requests for connections may wait for one who listens: `/proc/sys/net/rdma_ucm/max_backlog`.
//!
//! C header: `include/linux/sysctl.h`.

use kernel_ext::sysctl::Setting;

/// The largest backlog that a program may have.
pub(crate) static MAX: Setting = Setting::new(1024, 0, i32::MAX);

/// The backlog that a program gets: 0 asks for the largest.
pub(crate) fn limited(wish: u32) -> u32 {
    let max = u32::try_from(MAX.get()).unwrap_or(0);
    match wish {
        0 => max,
        wish => wish.min(max),
    }
}
