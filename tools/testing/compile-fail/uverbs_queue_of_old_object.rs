// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: mismatched types

//! A completion queue for an object that is not being created: the queue would refer to it after its end.

use kernel::prelude::*;
use rdma::core::{object::Owned, AttrBundle, Cq};
use rdma::MaySleep;
use rdma_uverbs::cq::{self, CqObject, CqSpec};

/// Makes a second queue.
pub fn make(
    command: &AttrBundle,
    object: &CqObject,
    spec: CqSpec,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    cq::create(command, object, spec, sleep)
}
