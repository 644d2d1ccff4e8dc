// SPDX-License-Identifier: GPL-2.0

//! Single requests that somebody waits for.

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

/// Who waits until a request is done.
#[pin_data]
pub(crate) struct Told {
    is_done: AtomicBool,
    #[pin]
    told: sync::Completion,
}

/// Handles a request that is waited for.
pub(crate) struct Once(Arc<Told>);

/// A single request.
pub(crate) type OnceWork<'d> = Pin<KBox<Work<'d, Once>>>;

impl<'d> Handler<'d> for Once {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let told = &work.handler().0;
        told.is_done.store(completion.is_success(), Release);
        told.told.complete_all();
    }
}

impl Told {
    /// A request with so many bytes of memory, and who waits for it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn work<'d>(
        device: &Device<'d>,
        length: u32,
        sleep: &MaySleep,
    ) -> Result<(OnceWork<'d>, Arc<Self>)> {
        let told = Arc::pin_init(
            pin_init!(Self {
                is_done: AtomicBool::new(false),
                told <- sync::Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        Ok((Work::new(device, length, Once(told.clone()), sleep)?, told))
    }

    /// Waits until the request is done, and takes completions where nobody else does.
    ///
    /// # Errors
    ///
    /// `EIO` if it failed, `ETIMEDOUT`.
    pub(crate) fn wait(&self, cq: &CqRef<'_>, sleep: &MaySleep) -> Result {
        const TRIES: u32 = 1000;
        const TRY_MS: u32 = 5;
        for _ in 0..TRIES {
            // Where the core polls this is an error, and not needed.
            let _ = cq.poll(1);
            if self.told.wait_timeout(TRY_MS, sleep) {
                return match self.is_done.load(Acquire) {
                    true => Ok(()),
                    false => Err(EIO),
                };
            }
        }
        Err(ETIMEDOUT)
    }
}
