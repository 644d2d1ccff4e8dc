// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues and work queues: `struct ib_srq`, `struct ib_wq`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::entry::view_of;
use rdma_bindings::{self as bindings, ib_srq, ib_srq_init_attr, ib_usrq_object, ib_wq_init_attr};

use super::{
    object::{
        constants, counted, driver_object, links, optional_links, tracked, Fresh, Owned,
        ParentCounts, UseCount,
    },
    Cq, Device, Pd, Srq, Wq, Xrcd,
};
use crate::MaySleep;

driver_object!(Srq, size_ib_srq; RDMA_RESTRACK_SRQ);
counted!(Srq);
tracked!(Srq);

view_of! {
    /// The attributes of a shared receive queue that is to be created; the driver updates them to what it has
    /// created: `struct ib_srq_init_attr`.
    ///
    /// # Invariants
    ///
    /// The structure is filled in, and lent for writing to the verb that creates the queue.
    pub struct SrqInit(ib_srq_init_attr);
}

view_of! {
    /// A user object that is a shared receive queue: `struct ib_usrq_object`.
    pub struct UsrqObject(ib_usrq_object);
}

impl Srq {
    links! {
        /// The device.
        device: Device = device;
        /// The protection domain.
        pd: Pd = pd;
    }
    optional_links! {
        /// The completion queue, for types that have one.
        cq: Cq = ext.cq;
    }
    constants! {
        /// `enum ib_srq_type`.
        kind: u32 = srq_type;
    }

    /// The XRC domain, for an XRC shared receive queue.
    pub fn xrcd(&self) -> Option<&Xrcd> {
        if self.kind() != bindings::IB_SRQT_XRC {
            return None;
        }
        // SAFETY: The type selects the member of the union, which is constant after the queue is made; the domain
        // outlives the queue.
        unsafe {
            (*self.as_raw())
                .ext
                .__bindgen_anon_1
                .xrc
                .xrcd
                .cast::<Xrcd>()
                .as_ref()
        }
    }
}

/// Whether shared receive queues of this type have a completion queue.
fn has_cq(srq_type: u32) -> bool {
    matches!(srq_type, bindings::IB_SRQT_XRC | bindings::IB_SRQT_TM)
}

impl Srq {
    /// The use counts of the objects that the queue uses.
    pub fn used(&self) -> impl Iterator<Item = UseCount<'_>> {
        [
            Some(self.pd().uses()),
            self.cq().map(Cq::uses),
            self.xrcd().map(Xrcd::uses),
        ]
        .into_iter()
        .flatten()
    }
}

impl Fresh<Srq> {
    /// As [`Srq::used`].
    pub fn used(&self) -> impl Iterator<Item = UseCount<'_>> {
        // SAFETY: Only the members are read.
        unsafe { self.members() }.used()
    }

    /// Allocates a shared receive queue, and fills in the core's part.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_srq(
        pd: &Pd,
        init: &SrqInit,
        uobject: Option<&UsrqObject>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: By the type invariants the structure is filled in.
        let init = unsafe { &*init.as_raw() };
        let mut srq = Self::alloc(pd.device(), Some(sleep))?;
        let raw: &mut ib_srq = srq.raw();
        raw.device = pd.device().as_raw();
        raw.pd = pd.as_raw();
        raw.event_handler = init.event_handler;
        raw.srq_context = init.srq_context;
        raw.srq_type = init.srq_type;
        raw.uobject = uobject.map_or(core::ptr::null_mut(), UsrqObject::as_raw);
        if has_cq(init.srq_type) {
            raw.ext.cq = init.ext.cq;
        }
        if init.srq_type == bindings::IB_SRQT_XRC {
            // SAFETY: The type selects the member of the union.
            raw.ext.__bindgen_anon_1.xrc.xrcd = unsafe { init.ext.__bindgen_anon_1.xrc.xrcd };
        }
        Ok(srq)
    }
}

counted!(Wq);

view_of! {
    /// The attributes of a work queue that is to be created: `struct ib_wq_init_attr`.
    pub struct WqInit(ib_wq_init_attr);
}

impl WqInit {
    links! {
        /// The completion queue.
        cq: Cq = cq;
    }
}

impl Wq {
    links! {
        /// The device.
        device: Device = device;
        /// The protection domain.
        pd: Pd = pd;
        /// The completion queue.
        cq: Cq = cq;
    }
}

impl Owned<Wq> {
    /// Counts the queue as a user of its domain and its completion queue.
    pub(super) fn count_parents(&self) {
        self.pd().uses().inc();
        self.cq().uses().inc();
    }

    /// The counted parents of the queue.
    pub(super) fn parent_counts(&self) -> ParentCounts<2> {
        // SAFETY: Both count the queue as a user since it was created.
        unsafe {
            let raw = self.as_raw();
            ParentCounts::new([&raw mut (*(*raw).pd).usecnt, &raw mut (*(*raw).cq).usecnt])
        }
    }
}
