// SPDX-License-Identifier: GPL-2.0

//! The work queue of the RDMA stack, which consumers use too.

use kernel::prelude::*;
use kernel_ext::{
    export::export,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::MaySleep;

/// The queue for work that may sleep: events, what consumers defer.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export(GPL)]
pub(crate) static ib_wq: GlobalQueue = GlobalQueue::new();

/// Makes the queue.
pub(crate) fn init(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"infiniband", QueueFlags::PER_CPU, 0, sleep)?;
    Ok(ib_wq.install(queue))
}
