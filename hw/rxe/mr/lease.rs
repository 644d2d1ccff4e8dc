// SPDX-License-Identifier: GPL-2.0

//! Revocable permission to access memory, as given by a memory window.

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

use super::MrError;

/// A permission that is granted and revoked repeatedly.
///
/// Its lock is taken in any context. Accesses run under it, so that none is running when [`Self::end`] returns.
#[pin_data]
pub(crate) struct Lease {
    /// The current term.
    #[pin]
    term: SpinLockIrq<u64>,
}

/// One grant of a [`Lease`], until it is revoked.
pub(crate) struct Term {
    lease: Arc<Lease>,
    term: u64,
}

impl Lease {
    /// A new lease. Sleeps.
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

    /// The current term.
    pub(crate) fn current(this: &Arc<Self>) -> Term {
        Term {
            lease: this.clone(),
            term: *this.term.lock(),
        }
    }

    /// Revokes the current term, and starts a new one.
    pub(crate) fn end(&self) {
        let mut term = self.term.lock();
        *term = term.wrapping_add(1);
    }
}

impl Term {
    /// Calls `f` under the lock, if the term is current.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where it was revoked; errors of `f`.
    pub(super) fn during<R>(&self, f: impl FnOnce() -> Result<R, MrError>) -> Result<R, MrError> {
        let term = self.lease.term.lock();
        if *term != self.term {
            return Err(MrError::Invalid);
        }
        f()
    }
}
