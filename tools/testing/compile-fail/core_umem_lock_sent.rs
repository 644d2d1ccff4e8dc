// SPDX-License-Identifier: GPL-2.0
// error: cannot be sent between threads safely

//! The guards of user memory's locks, which the thread that has locked them unlocks.

use rdma::core::umem::{dmabuf, odp};

fn is_sent<T: Send>() {}

/// Sends both.
pub fn send() {
    is_sent::<odp::Locked<'_>>();
    is_sent::<dmabuf::Locked<'_>>();
}
