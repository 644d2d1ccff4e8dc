// SPDX-License-Identifier: GPL-2.0

//! Address handles: the destination of a datagram, `struct ib_ah`.
//!
//! ```
//! use kernel::prelude::*;
//! use rdma::{
//!     client::{
//!         op::UdOp,
//!         qp::{QpRef, Rts, Ud},
//!         work::Handler,
//!         Ah, Pd, Work,
//!     },
//!     AhFields,
//! };
//!
//! /// Sends a datagram. Any context.
//! fn tell<'d, H: Handler<'d>>(
//!     qp: &QpRef<'d, Ud, Rts>,
//!     pd: &Pd<'d>,
//!     (path, qp_num): (&AhFields, u32),
//!     work: Pin<KBox<Work<'d, H>>>,
//! ) -> Result {
//!     let op = UdOp {
//!         ah: &Ah::new_atomic(pd, path)?,
//!         qp_num,
//!         qkey: 0x1111_1111,
//!         immediate: None,
//!     };
//!     Ok(qp.post_send(work, op)?)
//! }
//! ```
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_ah, ib_grh};

use super::{
    deferred::{Deferred, Object, UninitObject},
    device::made,
    source::Source,
    Pd,
};
use crate::{AhFields, MaySleep};

/// An address handle, counted. Any context may drop it: it is destroyed later, when no datagram needs it any more.
#[derive(Clone)]
pub struct Ah<'d>(Deferred<Inner<'d>>);

/// # Invariants
///
/// The address handle is ours.
struct Inner<'d> {
    raw: NonNull<ib_ah>,
    _pd: Pd<'d>,
}

// SAFETY: Address handles may be used from any thread.
unsafe impl Send for Inner<'_> {}
// SAFETY: As above.
unsafe impl Sync for Inner<'_> {}

/// The GRH that precedes a datagram in its receiver's memory, for those that have one: `struct ib_grh`, 40 bytes. For RoCE
/// version 2 over IPv4 the last 20 bytes are the IPv4 header.
pub const GRH_LENGTH: usize = 40;

const _: () = assert!(core::mem::size_of::<ib_grh>() == GRH_LENGTH);

impl<'d> Ah<'d> {
    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an address that cannot be, `ENOMEM`, and what the driver answers.
    pub fn new(pd: &Pd<'d>, address: &AhFields, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        Self::make(pd, address, bindings::RDMA_CREATE_AH_SLEEPABLE, GFP_KERNEL)
    }

    /// Makes an address handle in any context: the core is told that it must not sleep. The MAC address must be given.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn new_atomic(pd: &Pd<'d>, address: &AhFields) -> Result<Self> {
        Self::make(pd, address, 0, GFP_ATOMIC)
    }

    /// Makes an address handle for an answer to the sender of a datagram, which was received with `grh` on `port`.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`], and what resolving the address fails with.
    pub fn for_answer(
        pd: &Pd<'d>,
        source: &Source,
        grh: &[u8; GRH_LENGTH],
        port: u32,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        let wc = source.as_wc();
        // SAFETY: The protection domain is there. The header has these bytes, and may lie anywhere in memory.
        Self::keep(pd, GFP_KERNEL, || unsafe {
            let grh: ib_grh = grh.as_ptr().cast::<ib_grh>().read_unaligned();
            bindings::ib_create_ah_from_wc(pd.as_raw(), &wc, &grh, port)
        })
    }

    fn make(
        pd: &Pd<'d>,
        address: &AhFields,
        flags: u32,
        gfp: kernel::alloc::Flags,
    ) -> Result<Self> {
        let mut attr = address.to_raw();
        // SAFETY: The protection domain is there; the core copies the address.
        Self::keep(pd, gfp, || unsafe {
            bindings::rdma_create_ah(pd.as_raw(), &mut attr, flags)
        })
    }

    /// Keeps an address handle of C's that `make` makes.
    fn keep(
        pd: &Pd<'d>,
        gfp: kernel::alloc::Flags,
        make: impl FnOnce() -> *mut ib_ah,
    ) -> Result<Self> {
        let blank = UninitObject::new(gfp)?;
        // INVARIANT: It was just made.
        let inner = Inner {
            raw: made(make())?,
            _pd: pd.clone(),
        };
        Ok(Self(blank.deferred(pd.device(), inner)))
    }

    pub(super) fn as_raw(&self) -> *mut ib_ah {
        self.0.raw.as_ptr()
    }
}

impl Object for Inner<'_> {
    const WHAT: &'static str = "an address handle";

    fn destroy(&self, _sleep: &MaySleep) -> Result {
        let flags = bindings::RDMA_DESTROY_AH_SLEEPABLE;
        // SAFETY: By the type invariants; datagrams have a reference to this.
        to_result(unsafe { bindings::rdma_destroy_ah_user(self.raw.as_ptr(), flags, null_mut()) })
    }
}
