// SPDX-License-Identifier: GPL-2.0

//! `ib_wq`, the workqueue of the RDMA stack, which ULPs use too.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{
    export::export,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::MaySleep;

/// The workqueue for work that may sleep.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export(GPL)]
pub(crate) static ib_wq: GlobalQueue = GlobalQueue::new();

/// Creates the workqueue.
pub(crate) fn init(sleep: &MaySleep) -> Result<InstalledQueue> {
    let queue = OwnedQueue::new(c"infiniband", QueueFlags::PER_CPU, 0, sleep)?;
    Ok(ib_wq.install(queue))
}
