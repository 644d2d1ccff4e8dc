// SPDX-License-Identifier: GPL-2.0

//! The queue pair of an identifier, which its client creates by it or puts into it.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `QpLock` | the queue pair of an identifier, while it is modified | process context | what drivers take, `Slot::cm` |
//!
//! C header: `include/rdma/rdma_cm.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
    sync::{new_mutex, Mutex},
};
use rdma_bindings::{self as bindings, ib_qp, ib_qp_attr};

use super::id::IdBody;
use crate::{
    core::{qp::QpInitMut, Pd},
    MaySleep,
};

/// A lock for the queue pair of an identifier, of which it is a part.
#[pin_data]
pub struct QpLock {
    #[pin]
    lock: Mutex<()>,
}

/// The queue pair of an identifier, which is locked.
///
/// # Invariants
///
/// The queue pair is not destroyed as long as the value is there.
pub struct LockedQp<'a>(NonNull<ib_qp>, core::marker::PhantomData<&'a ()>);

/// Attributes of a queue pair, and which of them are filled in.
///
/// # Invariants
///
/// What the mask names is filled in; addresses are those of an identifier, which keeps their source GIDs.
pub struct Attributes {
    pub(super) attr: ib_qp_attr,
    pub(super) mask: c_int,
}

impl Attributes {
    /// The attributes for a state, of which `fill` fills in what belongs to it.
    ///
    /// # Errors
    ///
    /// Those of `fill`.
    pub fn for_state(
        state: u32,
        fill: impl FnOnce(&mut ib_qp_attr, &mut c_int) -> Result,
    ) -> Result<Self> {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state;
        let mut mask = 0;
        fill(&mut attr, &mut mask)?;
        // INVARIANT: What is not filled in is zero.
        Ok(Self { attr, mask })
    }

    /// The attributes that change a state alone, with the first PSN that is sent.
    pub fn state(state: u32, sq_psn: Option<u32>) -> Self {
        let mut attr: ib_qp_attr = pin_init::zeroed();
        attr.qp_state = state;
        attr.sq_psn = sq_psn.unwrap_or(0);
        let mask = match sq_psn {
            Some(_) => bindings::IB_QP_STATE | bindings::IB_QP_SQ_PSN,
            None => bindings::IB_QP_STATE,
        };
        Self {
            attr,
            mask: mask as c_int,
        }
    }

    /// Sets the number of outstanding READs that are received.
    pub fn set_max_dest_rd_atomic(&mut self, count: u8) {
        self.attr.max_dest_rd_atomic = count;
    }

    /// Sets the number of outstanding READs that are sent.
    pub fn set_max_rd_atomic(&mut self, count: u8) {
        self.attr.max_rd_atomic = count;
    }
}

impl LockedQp<'_> {
    /// Modifies the queue pair.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot change so, and those of the driver.
    pub fn modify(&self, mut change: Attributes, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants the queue pair is valid; what the mask names is filled in.
        to_result(unsafe { bindings::ib_modify_qp(self.0.as_ptr(), &mut change.attr, change.mask) })
    }
}

/// A queue pair that was just created, and is destroyed when it is dropped.
pub struct NewQp(NonNull<ib_qp>);

impl NewQp {
    /// Creates a queue pair for a port.
    ///
    /// # Errors
    ///
    /// Those of the verb.
    pub fn create(pd: &Pd, init: &QpInitMut<'_>, port: u32, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        // SAFETY: The domain is valid, and so are the attributes, which the client lends for writing. The name is constant.
        let raw = unsafe {
            (*init.as_raw()).port_num = port;
            bindings::ib_create_qp_kernel(pd.as_raw(), init.as_raw(), c"rdma_cm".as_char_ptr())
        };
        NonNull::new(from_err_ptr(raw)?).map(Self).ok_or(ENOMEM)
    }

    /// For its first states.
    pub fn as_locked(&self) -> LockedQp<'_> {
        // INVARIANT: `self` has the queue pair.
        LockedQp(self.0, core::marker::PhantomData)
    }

    /// The number, and whether it has an SRQ.
    pub fn numbers(&self) -> (u32, bool) {
        // SAFETY: The queue pair is valid; the members are constant.
        unsafe { ((*self.0.as_ptr()).qp_num, !(*self.0.as_ptr()).srq.is_null()) }
    }
}

impl Drop for NewQp {
    fn drop(&mut self) {
        // SAFETY: `self` has created the queue pair, and has not given it to a client.
        unsafe { bindings::ib_destroy_qp_user(self.0.as_ptr(), null_mut()) };
    }
}

impl QpLock {
    /// An initialiser.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self { lock <- new_mutex!((), "QpLock::lock") })
    }
}

impl IdBody {
    fn qp_place(&self) -> *mut *mut ib_qp {
        // SAFETY: The place is only computed.
        unsafe { &raw mut (*self.as_raw()).id.qp }
    }

    /// Whether the identifier has a queue pair.
    pub fn has_qp(&self) -> bool {
        // SAFETY: The member is valid; C writes to it by a single store.
        !unsafe { self.qp_place().read_volatile() }.is_null()
    }

    /// Gives the queue pair to the client.
    pub fn set_qp(&self, qp: NewQp) {
        // SAFETY: The member is valid. The client destroys the queue pair.
        unsafe { self.qp_place().write_volatile(qp.0.as_ptr()) };
        core::mem::forget(qp);
    }

    /// Calls `f` with the queue pair, if there is one.
    pub fn with_qp<R>(
        &self,
        lock: &QpLock,
        _sleep: &MaySleep,
        f: impl FnOnce(Option<LockedQp<'_>>) -> R,
    ) -> R {
        let _locked = lock.lock.lock();
        // SAFETY: The member is valid. By the header a client that destroys its queue pair otherwise than by `destroy_qp`, which takes the
        // lock, takes it out before, and lets no handler run.
        let qp = NonNull::new(unsafe { self.qp_place().read_volatile() });
        // INVARIANT: As above.
        f(qp.map(|qp| LockedQp(qp, core::marker::PhantomData)))
    }

    /// Destroys the queue pair, if there is one.
    pub fn destroy_qp(&self, lock: &QpLock, _sleep: &MaySleep) {
        let _locked = lock.lock.lock();
        // SAFETY: The member is valid; the client gives the queue pair up.
        unsafe {
            let qp = self.qp_place().read_volatile();
            if !qp.is_null() {
                bindings::ib_destroy_qp_user(qp, null_mut());
                self.qp_place().write_volatile(null_mut());
            }
        }
    }
}
