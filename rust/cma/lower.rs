// SPDX-License-Identifier: GPL-2.0

//! What an identifier has of `ib_cm` or `iw_cm`, and its place in the identifier.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Slot::cm` | what an identifier has of a manager below; held during calls of it | process context | what `ib_cm` and `iw_cm` take, `Slot::notified` |
//! | `Slot::notified` | the same for whoever must not sleep | any, interrupts off | what `ib_cm_notify` takes |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::ptr::NonNull;

use kernel::{
    error::to_result,
    prelude::*,
    sync::{new_mutex, Mutex},
};
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::{
    bindings::{self, ib_cm_id, iw_cm_id},
    MaySleep,
};

use crate::{
    ib::{self, IbCm, IbListener},
    iw::{self, IwCm},
};

/// What an identifier has of a manager below.
pub enum Lower<T: ib::Receiver + iw::Receiver> {
    /// A connection of `ib_cm`.
    Ib(IbCm<T>),
    /// A listener of `ib_cm`.
    IbListener(IbListener),
    /// A connection or a listener of `iw_cm`.
    Iw(IwCm<T>),
}

/// What is there, for whoever must not sleep.
enum Notified {
    /// The identifier of `ib_cm` that may be notified.
    Ib(NonNull<ib_cm_id>),
    /// Another.
    Other,
}

// SAFETY: Identifiers may be used from any thread.
unsafe impl Send for Notified {}

/// The place in an identifier.
///
/// # Invariants
///
/// While `notified` has an identifier, `cm` has it too.
#[pin_data]
pub struct Slot<T: ib::Receiver + iw::Receiver> {
    #[pin]
    cm: Mutex<Option<Lower<T>>>,
    #[pin]
    notified: SpinLockIrq<Option<Notified>>,
}

impl<T: ib::Receiver + iw::Receiver> Slot<T> {
    /// An empty place.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            cm <- new_mutex!(None, "Slot::cm"),
            notified <- new_spinlock_irq!(None, "Slot::notified"),
        })
    }

    /// Puts something there. What was there before is the result.
    pub fn put(&self, lower: Lower<T>, sleep: &MaySleep) -> Option<Lower<T>> {
        let old = self.take(sleep);
        let mut cm = self.cm.lock();
        let notified = match &lower {
            Lower::Ib(ib) => Notified::Ib(ib.as_raw()),
            _ => Notified::Other,
        };
        let raced = cm.replace(lower);
        // INVARIANT: It was just put there.
        *self.notified.lock() = Some(notified);
        drop(cm);
        old.or(raced)
    }

    /// Takes out what is there.
    pub fn take(&self, _sleep: &MaySleep) -> Option<Lower<T>> {
        let mut cm = self.cm.lock();
        *self.notified.lock() = None;
        cm.take()
    }

    /// Calls `f` with what is there, which stays meanwhile.
    pub fn with<R>(&self, _sleep: &MaySleep, f: impl FnOnce(Option<&Lower<T>>) -> R) -> R {
        f(self.cm.lock().as_ref())
    }

    /// Tells `ib_cm` of an event of the queue pair. `None` if there is no connection of `ib_cm`. Any context.
    pub fn notify(&self, event: u32) -> Option<Result> {
        let notified = self.notified.lock();
        let Notified::Ib(id) = notified.as_ref()? else {
            return None;
        };
        // SAFETY: By the type invariants the identifier is there: who takes it out waits for the lock. The function may be called in any
        // context.
        Some(to_result(unsafe {
            bindings::ib_cm_notify(id.as_ptr(), event)
        }))
    }

    /// Whether something is there. Any context.
    pub fn is_some(&self) -> bool {
        self.notified.lock().is_some()
    }

    /// The identifier of `iw_cm`, for the client.
    pub fn iw(&self, _sleep: &MaySleep) -> *mut iw_cm_id {
        match &*self.cm.lock() {
            Some(Lower::Iw(iw)) => iw.as_raw().as_ptr(),
            _ => core::ptr::null_mut(),
        }
    }
}
