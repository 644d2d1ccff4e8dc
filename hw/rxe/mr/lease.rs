// SPDX-License-Identifier: GPL-2.0

//! Leases: revocable permissions to access memory, which bound memory windows give (IBTA volume 1, section 10.6.7.2).
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Lease::epoch` | whether memory is still given by a window; held during an access | any, interrupts off | nothing |

use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};

use super::error::MrError;

/// A permission that is granted and revoked repeatedly.
///
/// Its lock is taken in any context. Accesses run under it, so that none is running when [`Self::revoke`] returns.
#[pin_data]
pub(crate) struct Lease {
    /// The number of revocations. Only grants of this epoch are valid.
    #[pin]
    epoch: SpinLockIrq<u64>,
}

/// A permission from a [`Lease`], until that is revoked.
pub(crate) struct Grant {
    lease: Arc<Lease>,
    epoch: u64,
}

impl Lease {
    /// A new lease. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self { epoch <- new_spinlock_irq!(0, "rxe_mw::lease") }),
            GFP_KERNEL,
        )
    }

    /// Grants the permission until the next [`Self::revoke`].
    pub(crate) fn grant(this: &Arc<Self>) -> Grant {
        Grant {
            lease: this.clone(),
            epoch: *this.epoch.lock(),
        }
    }

    /// Revokes all grants so far.
    pub(crate) fn revoke(&self) {
        let mut epoch = self.epoch.lock();
        *epoch = epoch.wrapping_add(1);
    }
}

impl Grant {
    /// Calls `f` under the lock, if the grant is valid.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] if it was revoked; errors of `f`.
    pub(super) fn access<R>(&self, f: impl FnOnce() -> Result<R, MrError>) -> Result<R, MrError> {
        let epoch = self.lease.epoch.lock();
        if *epoch != self.epoch {
            return Err(MrError::Invalid);
        }
        f()
    }
}
