// SPDX-License-Identifier: GPL-2.0
// error: the trait `Tracked` requires an `unsafe impl` declaration

//! The core says of an object that it has the resource tracking entry of another one, without a proof.

use rdma::core::{object::Tracked, RestrackEntry};

/// Not an object.
pub struct Fake(pub &'static RestrackEntry);

impl Tracked for Fake {
    fn res(&self) -> &RestrackEntry {
        self.0
    }
}
