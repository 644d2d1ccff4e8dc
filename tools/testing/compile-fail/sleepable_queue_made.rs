// SPDX-License-Identifier: GPL-2.0
// error: SleepableQueue::from_raw` is unsafe and requires unsafe

//! Safe code that says of a queue that its workers may sleep.

use kernel_ext::{bindings, work::SleepableQueue};

/// A queue.
pub fn queue(queue: &*mut bindings::workqueue_struct) -> &SleepableQueue {
    SleepableQueue::from_raw(*queue)
}
