// SPDX-License-Identifier: GPL-2.0

//! Completion queues of clients.
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `Cq::polling` | that one thread at a time polls a queue which its client polls | process | what handlers take |

use core::ptr::{null_mut, NonNull};

use kernel::{ffi::c_int, new_mutex, prelude::*, sync::Arc, sync::Mutex};
use rdma_bindings::{self as bindings, ib_cq};

use super::{made, Device};
use crate::MaySleep;

c_enum! {
    /// Who takes completions and calls their handlers: `enum ib_poll_context`.
    pub enum PollContext {
        /// The client, with [`Cq::poll`].
        Direct = bindings::IB_POLL_DIRECT,
        /// A softirq: handlers must not sleep.
        SoftIrq = bindings::IB_POLL_SOFTIRQ,
        /// A work item, on the CPU where completions are announced.
        WorkQueue = bindings::IB_POLL_WORKQUEUE,
        /// A work item, on any CPU.
        UnboundWorkQueue = bindings::IB_POLL_UNBOUND_WORKQUEUE,
    }
}

/// A completion queue. One handler of its completions runs at a time. Dropping it may sleep.
///
/// # Invariants
///
/// The queue is ours.
#[pin_data(PinnedDrop)]
pub struct Cq {
    raw: NonNull<ib_cq>,
    context: PollContext,
    #[pin]
    polling: Mutex<()>,
    device: Device,
}

// SAFETY: Completion queues may be used from any thread.
unsafe impl Send for Cq {}
// SAFETY: As above.
unsafe impl Sync for Cq {}

impl Cq {
    /// Makes a completion queue with room for `entries` completions: one for each request that is posted, and one more for
    /// each queue of each QP, which destroying the QP needs. `vector` is its completion vector.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue without room, `ENOMEM`, and what the driver answers.
    pub fn new(
        device: &Device,
        entries: u32,
        vector: u32,
        context: PollContext,
        sleep: &MaySleep,
    ) -> Result<Arc<Self>> {
        sleep.check();
        let entries = c_int::try_from(entries).map_err(|_| EINVAL)?;
        let vector = c_int::try_from(vector).map_err(|_| EINVAL)?;
        if entries == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The device is registered; the name is constant.
        let raw = made(unsafe {
            bindings::__ib_alloc_cq(
                device.as_raw(),
                null_mut(),
                entries,
                vector,
                context.as_raw(),
                device.owner.as_char_ptr(),
            )
        })?;
        // INVARIANT: It was just made. Where this fails, it is dropped.
        let guard = kernel::types::ScopeGuard::new(|| {
            // SAFETY: Nobody knows the queue.
            unsafe { bindings::ib_free_cq(raw.as_ptr()) };
        });
        let cq = Arc::pin_init(
            pin_init!(Self {
                raw,
                context,
                polling <- new_mutex!((), "Cq::polling"),
                device: device.clone(),
            }),
            GFP_KERNEL,
        )?;
        guard.dismiss();
        Ok(cq)
    }

    pub(super) fn as_raw(&self) -> *mut ib_cq {
        self.raw.as_ptr()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Takes completions and calls their handlers, until there are none, or `budget` of them. Returns how many there were.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue that its client does not poll.
    pub fn poll(&self, budget: Option<u32>, _sleep: &MaySleep) -> Result<u32> {
        if self.context != PollContext::Direct {
            return Err(EINVAL);
        }
        let _alone = self.polling.lock();
        let budget = budget.map_or(-1, |budget| c_int::try_from(budget).unwrap_or(c_int::MAX));
        // SAFETY: By the type invariants; nobody else polls.
        let count = unsafe { bindings::ib_process_cq_direct(self.as_raw(), budget) };
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Calls `f` while nobody polls by [`Self::poll`].
    pub(super) fn while_not_polled<R>(&self, f: impl FnOnce() -> R) -> R {
        let _alone = (self.context == PollContext::Direct).then(|| self.polling.lock());
        f()
    }
}

#[pinned_drop]
impl PinnedDrop for Cq {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants; what uses it has a reference to this.
        unsafe { bindings::ib_free_cq(self.as_raw()) };
    }
}
