// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: the trait bound `Unlocked: lookup::sealed::Sealed` is not satisfied

//! An object that is looked up for a mode of our own, which locks nothing.

use rdma::core::uobject::LookupMode;
use rdma_uverbs::lookup::Mode;

/// No lock.
pub struct Unlocked;

impl Mode for Unlocked {
    const MODE: LookupMode = LookupMode::Destroy;
}
