// SPDX-License-Identifier: GPL-2.0
// error: this function takes 1 argument but 0 arguments were supplied

//! A core destroys an address handle in a handler, which has no token, as if it might sleep there.

use rdma::core::{ah::AhContext, object::Owned, Ah};

/// What a handler of completions would do.
pub fn done(ah: Owned<Ah>) {
    let _ = ah.driver_destroy(&AhContext::sleepable());
}
