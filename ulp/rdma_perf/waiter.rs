// SPDX-License-Identifier: GPL-2.0

//! Synchronous requests: the thread that posts one waits for its completion.

use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::sync;
use rdma::{
    client::{
        cq::CqRef,
        work::{Completion, Handler},
        Device, Work,
    },
    MaySleep,
};

/// Waits for the completion of a request.
#[pin_data]
pub(crate) struct Waiter {
    is_success: AtomicBool,
    #[pin]
    done: sync::Completion,
}

/// The completion handler: it wakes the [`Waiter`].
pub(crate) struct SyncHandler(Arc<Waiter>);

/// A request that the poster waits for.
pub(crate) type SyncWork<'d> = Pin<KBox<Work<'d, SyncHandler>>>;

impl<'d> Handler<'d> for SyncHandler {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let waiter = &work.handler().0;
        waiter.is_success.store(completion.is_success(), Release);
        waiter.done.complete_all();
    }
}

impl Waiter {
    /// A request with `length` bytes of memory, and its waiter.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn work<'d>(
        device: &Device<'d>,
        length: u32,
        sleep: &MaySleep,
    ) -> Result<(SyncWork<'d>, Arc<Self>)> {
        let waiter = Arc::pin_init(
            pin_init!(Self {
                is_success: AtomicBool::new(false),
                done <- sync::Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let handler = SyncHandler(waiter.clone());
        Ok((Work::new(device, length, handler, sleep)?, waiter))
    }

    /// Waits for the completion, and polls the completion queue if the core does not.
    ///
    /// # Errors
    ///
    /// `EIO` if it failed, `ETIMEDOUT`.
    pub(crate) fn wait(&self, cq: &CqRef<'_>, sleep: &MaySleep) -> Result {
        const TRIES: u32 = 1000;
        const TRY_MS: u32 = 5;
        for _ in 0..TRIES {
            // This fails where the core polls, and is not needed there.
            let _ = cq.poll(1);
            if self.done.wait_timeout(TRY_MS, sleep) {
                return match self.is_success.load(Acquire) {
                    true => Ok(()),
                    false => Err(EIO),
                };
            }
        }
        Err(ETIMEDOUT)
    }
}
