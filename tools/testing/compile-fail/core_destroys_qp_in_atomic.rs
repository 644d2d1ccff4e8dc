// SPDX-License-Identifier: GPL-2.0
// error: this method takes 2 arguments but 1 argument was supplied

//! A core destroys a queue pair in a handler, which has no token.

use rdma::core::{object::Owned, Qp};

/// What a handler of completions would do.
pub fn done(qp: Owned<Qp>) {
    let _ = qp.driver_destroy(None);
}
