// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied

//! A core destroys a shared receive queue in a handler, which has no token.

use rdma::core::{object::Owned, Srq};

/// What a handler of completions would do.
pub fn done(srq: Owned<Srq>) {
    let _ = srq.driver_destroy(None);
}
