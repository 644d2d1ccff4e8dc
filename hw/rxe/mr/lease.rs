// SPDX-License-Identifier: GPL-2.0

//! Permission to use memory that ends before the memory does: what a memory window gives.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

use super::MrError;

/// Permission that is given and ended again and again.
///
/// Its lock is taken in any context. What is done with the permission is done under it, so that it has
/// ended when [`Self::end`] returns.
#[pin_data]
pub(crate) struct Lease {
    /// Which one stands.
    #[pin]
    term: SpinLockIrq<u64>,
}

/// One term of a [`Lease`].
pub(crate) struct Term {
    lease: Arc<Lease>,
    term: u64,
}

impl Lease {
    /// A lease. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { term <- new_spinlock_irq!(0, "rxe_mw::lease") }),
            GFP_KERNEL,
        )
    }

    /// The term that stands.
    pub(crate) fn current(this: &Arc<Self>) -> Term {
        Term {
            lease: this.clone(),
            term: *this.term.lock(),
        }
    }

    /// Ends the term; a new one begins.
    pub(crate) fn end(&self) {
        let mut term = self.term.lock();
        *term = term.wrapping_add(1);
    }
}

impl Term {
    /// Calls `f` if the term stands, and lets it stand meanwhile.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where it has ended; what `f` says.
    pub(super) fn during<R>(&self, f: impl FnOnce() -> Result<R, MrError>) -> Result<R, MrError> {
        let term = self.lease.term.lock();
        if *term != self.term {
            return Err(MrError::Invalid);
        }
        f()
    }
}
