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
//! fn send_datagram<'d, H: Handler<'d>>(
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

/// A reference-counted address handle. It may be dropped in any context, and is destroyed later, after the last datagram
/// that uses it.
#[derive(Clone)]
pub struct Ah<'d>(Deferred<Inner<'d>>);

/// # Invariants
///
/// `self` owns the address handle.
struct Inner<'d> {
    raw: NonNull<ib_ah>,
    _pd: Pd<'d>,
}

// SAFETY: Address handles may be used and destroyed from any thread.
unsafe impl Send for Inner<'_> {}
// SAFETY: Address handles may be used and destroyed from any thread.
unsafe impl Sync for Inner<'_> {}

/// The length of the GRH in front of a datagram in the receiver's memory: `struct ib_grh`, 40 bytes. For RoCE version 2
/// over IPv4 the last 20 bytes are the IPv4 header.
pub const GRH_LENGTH: usize = 40;

const _: () = assert!(core::mem::size_of::<ib_grh>() == GRH_LENGTH);

impl<'d> Ah<'d> {
    /// Creates an address handle.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid address, `ENOMEM`, and those of the driver.
    pub fn new(pd: &Pd<'d>, address: &AhFields, sleep: &MaySleep) -> Result<Self> {
        sleep.check();
        Self::make(pd, address, bindings::RDMA_CREATE_AH_SLEEPABLE, GFP_KERNEL)
    }

    /// Creates an address handle in any context, without sleeping. The MAC address must be set.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`].
    pub fn new_atomic(pd: &Pd<'d>, address: &AhFields) -> Result<Self> {
        Self::make(pd, address, 0, GFP_ATOMIC)
    }

    /// Creates an address handle for a reply to the sender of a datagram, which was received with `grh` on `port`.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`], and those of resolving the address.
    pub fn for_reply(
        pd: &Pd<'d>,
        source: &Source,
        grh: &[u8; GRH_LENGTH],
        port: u32,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        let wc = source.as_wc();
        // SAFETY: The protection domain is valid. The header has 40 bytes, without an alignment.
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
        // SAFETY: The protection domain is valid; the core copies the address.
        Self::keep(pd, gfp, || unsafe {
            bindings::rdma_create_ah(pd.as_raw(), &mut attr, flags)
        })
    }

    /// Wraps the C address handle that `make` creates.
    fn keep(
        pd: &Pd<'d>,
        gfp: kernel::alloc::Flags,
        make: impl FnOnce() -> *mut ib_ah,
    ) -> Result<Self> {
        let blank = UninitObject::new(gfp)?;
        // INVARIANT: The address handle was just created.
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
        // SAFETY: By the type invariants `self` owns the handle; datagrams hold references to it, so none uses it any
        // more.
        to_result(unsafe { bindings::rdma_destroy_ah_user(self.raw.as_ptr(), flags, null_mut()) })
    }
}
