// SPDX-License-Identifier: GPL-2.0

//! Calls of the handlers of clients.
//!
//! C header: `include/rdma/ib_cm.h` (`ib_cm_handler`).

use core::mem::forget;

use kernel::{prelude::*, sync::Arc};
use kernel_ext::entry::FromC;

use super::{event::Event, id::IdBody};
use crate::{
    core::mad::{c_pointer, Embeds, OwnedArg},
    MaySleep,
};

/// Tells an event to the client of an identifier, if it has one. If its handler returns an error it gives the identifier up: the
/// result is the reference that it has had, and the error.
#[must_use]
pub fn tell<T: Embeds<Body = IdBody>>(
    this: &Arc<T>,
    event: &Event<'_>,
    _sleep: &MaySleep,
) -> Option<(Arc<T>, Error)> {
    if !this.body().has_client() {
        return None;
    }
    let raw = c_pointer(this);
    // SAFETY: The structure is valid. The client may change its handler in a handler, and does not while events are told.
    let handler = unsafe { (*raw).cm_handler }?;
    // SAFETY: By the header the client's handler is called so, in process context.
    let ret = unsafe { handler(raw, event.as_raw()) };
    if ret == 0 {
        return None;
    }
    if !this.body().take_client() {
        return None;
    }
    // SAFETY: By the type invariants of the body the client had a reference, which nobody else takes. By the header a client whose
    // handler returns an error does not use the identifier any more, so that it is given up here, once.
    let given_up = unsafe { OwnedArg::from_c(raw) }.0;
    let error = kernel::error::to_result(ret).err().unwrap_or(EINVAL);
    Some((given_up, error))
}

/// Tells an event to the client of an identifier that it does not know yet, and gives it a reference. The rest is as for [`tell`].
#[must_use]
pub fn offer<T: Embeds<Body = IdBody>>(
    this: &Arc<T>,
    event: &Event<'_>,
    sleep: &MaySleep,
) -> Option<(Arc<T>, Error)> {
    // The client has it, until it comes back.
    forget(this.clone());
    this.body().set_client();
    tell(this, event, sleep)
}
