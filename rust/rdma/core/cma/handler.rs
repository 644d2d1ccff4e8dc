// SPDX-License-Identifier: GPL-2.0

//! The handler lock of identifiers, and calls of the handlers of clients, which run with it held.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `IdBody::handler_mutex` | one handler of an identifier at a time, and its state while a connection begins | process context | that of a new identifier of the same listener, all others |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::mem::{forget, ManuallyDrop};

use kernel::{ffi::c_int, sync::Arc};
use kernel_ext::{cmutex::CMutexGuard, entry::FromC};
use rdma_bindings as bindings;

use super::{event::Event, id::IdBody, trace};
use crate::{
    core::mad::{c_pointer, Body, Borrowed, Embeds, OwnedArg},
    MaySleep,
};

/// The handler lock of an identifier, which this task holds. Dropping it gives the lock up.
#[must_use]
pub struct Handling<'a> {
    body: &'a IdBody,
    #[expect(dead_code, reason = "it is dropped")]
    guard: CMutexGuard<'a>,
}

impl IdBody {
    /// Takes the handler lock.
    pub fn handling(&self, sleep: &MaySleep) -> Handling<'_> {
        Handling {
            body: self,
            guard: self.handler_mutex().lock(sleep),
        }
    }

    /// Takes the handler lock of an identifier that is new, inside of that of its listener.
    pub fn handling_inside(&self, _listener: &Handling<'_>, _sleep: &MaySleep) -> Handling<'_> {
        let mutex = self.handler_mutex();
        // SAFETY: The mutex is initialised, and the token proves that the context may sleep; the guard is for the lock that was taken.
        let guard = unsafe {
            bindings::cma_lock_nested(mutex.as_raw());
            mutex.assume_locked()
        };
        Handling { body: self, guard }
    }

    /// Takes the handler lock for C, which gives it back as an [`UnlockArg`].
    pub fn lock_for_client(&self, sleep: &MaySleep) {
        forget(self.handling(sleep));
    }
}

type CBody<T> = <<T as Embeds>::Body as Body>::C;

/// An identifier that C lends for a call in a handler of it, or with its handler lock.
pub struct InHandler<'a, T: Embeds<Body = IdBody>> {
    id: Borrowed<'a, T>,
    handling: ManuallyDrop<Handling<'a>>,
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<'a, T: Embeds<Body = IdBody>> FromC for InHandler<'a, T> {
    type Raw = *mut CBody<T>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the identifier is valid during the call. By the header this task holds the handler lock,
        // and goes on holding it: the guard is not dropped.
        unsafe {
            let body: &'a IdBody = &*raw.cast();
            Self {
                id: Borrowed::from_c(raw),
                handling: ManuallyDrop::new(Handling {
                    body,
                    guard: body.handler_mutex().assume_locked(),
                }),
            }
        }
    }
}

impl<'a, T: Embeds<Body = IdBody>> InHandler<'a, T> {
    /// Takes a reference to the identifier.
    pub fn hold(&self) -> Arc<T> {
        self.id.hold()
    }

    /// The lock.
    pub fn handling(&self) -> &Handling<'a> {
        &self.handling
    }
}

/// An identifier whose handler lock C gives up. Dropping the value unlocks it.
pub struct UnlockArg<'a>(#[expect(dead_code, reason = "it is dropped")] Handling<'a>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<'a> FromC for UnlockArg<'a> {
    type Raw = *mut bindings::rdma_cm_id;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the identifier is valid during the call, and a member of an `IdBody`. By the header this task
        // has locked it, and gives that up here.
        unsafe {
            let body: &'a IdBody = &*raw.cast();
            Self(Handling {
                body,
                guard: body.handler_mutex().assume_locked(),
            })
        }
    }
}

/// What an identifier's client has given up, and what its handler has returned: not 0.
pub struct GivenUp<T> {
    /// The reference that the client has had.
    pub id: Arc<T>,
    /// What the handler has returned.
    pub code: c_int,
}

/// Tells an event to the client of an identifier, which has the identifier on. The result is that of its handler; 0 if there is none, or
/// if the lock is that of another identifier.
pub fn inform<T: Embeds<Body = IdBody>>(
    this: &Arc<T>,
    event: &mut Event<'_>,
    handling: &Handling<'_>,
    _sleep: &MaySleep,
) -> c_int {
    if !core::ptr::eq(handling.body, this.body()) {
        return 0;
    }
    let raw = c_pointer(this);
    // SAFETY: The structure is valid. The client may change its handler in a handler, and does not while events are told.
    let handler = unsafe { (&raw const (*raw).event_handler).read_volatile() };
    let Some(handler) = handler else { return 0 };
    trace::cm_event_handler(this.body(), event);
    // SAFETY: By the header the client's handler is called so, in process context.
    let code = unsafe { handler(raw, event.as_raw()) };
    trace::cm_event_done(this.body(), event, code);
    code
}

/// Tells an event to the client of an identifier. If its handler returns an error it gives the identifier up. The rest is as for
/// [`inform`].
#[must_use]
pub fn tell<T: Embeds<Body = IdBody>>(
    this: &Arc<T>,
    event: &mut Event<'_>,
    handling: &Handling<'_>,
    sleep: &MaySleep,
) -> Option<GivenUp<T>> {
    let code = inform(this, event, handling, sleep);
    if code == 0 || !this.body().take_from_client() {
        return None;
    }
    // SAFETY: By the header a client whose handler returns an error does not use the identifier any more. It has had a reference, from
    // `offer` or from the exported function, which is taken here, once.
    let id = unsafe { OwnedArg::from_c(c_pointer(this)) }.0;
    Some(GivenUp { id, code })
}

/// Tells an event to the client of an identifier that it does not know yet, and gives it a reference. The rest is as for [`tell`].
#[must_use]
pub fn offer<T: Embeds<Body = IdBody>>(
    this: &Arc<T>,
    event: &mut Event<'_>,
    handling: &Handling<'_>,
    sleep: &MaySleep,
) -> Option<GivenUp<T>> {
    forget(this.clone());
    // SAFETY: The client has the reference that was just counted, until it comes back.
    unsafe { this.body().given() };
    tell(this, event, handling, sleep)
}
