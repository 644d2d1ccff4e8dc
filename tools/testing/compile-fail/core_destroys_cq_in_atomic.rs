// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied

//! A core destroys a completion queue in a handler, which has no token.

use rdma::core::{object::Owned, Cq};

/// What a handler of completions would do.
pub fn done(cq: Owned<Cq>) {
    let _ = cq.driver_destroy(None);
}
