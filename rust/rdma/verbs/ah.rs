// SPDX-License-Identifier: GPL-2.0

//! Address handles of clients: where datagrams go.

use core::ptr::{null_mut, NonNull};

use kernel::prelude::*;
use rdma_bindings::{self as bindings, ib_ah, ib_grh, rdma_ah_attr};

use super::{deferred::Deferred, made, work::Source, Pd};
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
        Self::keep(pd, GFP_KERNEL, unsafe {
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
        let mut attr: rdma_ah_attr = pin_init::zeroed();
        fill_address(&mut attr, address);
        // SAFETY: The protection domain is there; the core copies the address.
        Self::keep(pd, gfp, unsafe {
            bindings::rdma_create_ah(pd.as_raw(), &mut attr, flags)
        })
    }

    fn keep(pd: &Pd<'d>, gfp: kernel::alloc::Flags, raw: *mut ib_ah) -> Result<Self> {
        // INVARIANT: It was just made.
        let inner = Inner {
            raw: made(raw)?,
            _pd: pd.clone(),
        };
        Ok(Self(Deferred::new(pd.device(), inner, gfp)?))
    }

    pub(super) fn as_raw(&self) -> *mut ib_ah {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; datagrams have a reference to this. The core is told that it must not sleep, as a
        // handle that could not be kept is dropped where it was made.
        let ret = unsafe { bindings::rdma_destroy_ah_user(self.raw.as_ptr(), 0, null_mut()) };
        if ret != 0 {
            pr_warn!("an address handle cannot be destroyed: {ret}\n");
        }
    }
}

/// Fills in an address of RoCE. It has no reference to its source: the core finds that by its index.
pub(super) fn fill_address(attr: &mut rdma_ah_attr, address: &AhFields) {
    attr.type_ = bindings::RDMA_AH_ATTR_TYPE_ROCE;
    attr.sl = address.sl;
    attr.static_rate = address.static_rate;
    attr.port_num = address.port_num;
    attr.__bindgen_anon_1.roce = bindings::roce_ah_attr { dmac: address.dmac };
    let Some(route) = address.grh else {
        return;
    };
    attr.ah_flags = bindings::IB_AH_GRH as u8;
    attr.grh.dgid = route.dgid.to_raw();
    attr.grh.flow_label = route.flow_label;
    attr.grh.sgid_index = route.sgid_index;
    attr.grh.hop_limit = route.hop_limit;
    attr.grh.traffic_class = route.traffic_class;
}
