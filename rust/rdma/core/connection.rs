// SPDX-License-Identifier: GPL-2.0

//! What the connection managers of InfiniBand and iWARP take alike: private data, and requests for the attributes of queue pairs.
//!
//! C headers: `include/rdma/ib_cm.h`, `include/rdma/iw_cm.h`.

use core::{marker::PhantomData, ptr::null};

use kernel::ffi::{c_int, c_void};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_qp_attr};

use super::address_vector::AddressVector;

/// Private data as an argument of C, which passes its length as another one; or none.
pub struct PrivateDataArg<'a>(*const c_void, PhantomData<&'a ()>);

/// The length that belongs to a [`PrivateDataArg`].
pub struct PrivateLenArg<'a>(u8, PhantomData<&'a ()>);

/// Private data for a peer, at most 255 bytes.
///
/// # Invariants
///
/// The pointer is null, or there are so many bytes.
pub struct PrivateData<'a>(*const c_void, u8, PhantomData<&'a ()>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for PrivateDataArg<'_> {
    type Raw = *const c_void;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for PrivateLenArg<'_> {
    type Raw = u8;

    #[inline]
    unsafe fn from_c(raw: u8) -> Self {
        Self(raw, PhantomData)
    }
}

impl<'a> PrivateDataArg<'a> {
    /// Joins the two arguments.
    pub fn with(self, length: PrivateLenArg<'a>) -> PrivateData<'a> {
        // INVARIANT: C alone makes both values, and they end with the call, so that they are of the same call.
        PrivateData(self.0, length.0, PhantomData)
    }
}

impl<'a> PrivateData<'a> {
    /// No private data.
    // INVARIANT: There are no bytes.
    pub const NONE: Self = Self(null(), 0, PhantomData);

    /// Private data of which C passes the pointer and the length in a structure.
    ///
    /// # Safety
    ///
    /// The pointer is null, or there are so many bytes, which nobody writes to as long as the value is there.
    pub unsafe fn from_raw(raw: *const c_void, length: u8) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw, length, PhantomData)
    }

    /// The pointer, which is null without data, and the length.
    pub fn parts(&self) -> (*const c_void, u8) {
        (self.0, self.1)
    }

    /// The bytes. C may pass a length without data, which is no data.
    pub fn bytes(&self) -> &'a [u8] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: By the type invariants.
        unsafe { core::slice::from_raw_parts(self.0.cast(), self.1.into()) }
    }
}

/// The attributes of a queue pair that a client wants to know.
///
/// # Invariants
///
/// The structure is valid for the call, and the state is filled in.
pub struct QpAttrRequest<'a>(*mut ib_qp_attr, PhantomData<&'a mut ib_qp_attr>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for QpAttrRequest<'_> {
    type Raw = *mut ib_qp_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the client has filled the state in.
        Self(raw, PhantomData)
    }
}

impl QpAttrRequest<'_> {
    /// The state that the queue pair is to have: `enum ib_qp_state`.
    pub fn state(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.0).qp_state }
    }

    /// Begins to fill attributes in: none is yet.
    pub fn fill(&mut self) -> Filling<'_> {
        Filling {
            // SAFETY: By the type invariants the structure is valid for writes; C does not use it during the call.
            attr: unsafe { &mut *self.0 },
            mask: 0,
        }
    }

    /// Allows the peer READs and WRITEs; returns the mask of the attributes that are filled in.
    pub fn allow_remote(&mut self) -> c_int {
        let access = bindings::IB_ACCESS_REMOTE_WRITE | bindings::IB_ACCESS_REMOTE_READ;
        // SAFETY: By the type invariants the structure is valid for writes.
        unsafe { (*self.0).qp_access_flags = access as c_int };
        (bindings::IB_QP_STATE | bindings::IB_QP_ACCESS_FLAGS) as c_int
    }
}

/// Attributes of a queue pair that are filled in: each function sets one, and its bit in the mask.
///
/// An address vector is copied. The reference to its source GID stays with who has the original: by the header the client modifies its
/// queue pair before it gives the identifier up.
pub struct Filling<'a> {
    attr: &'a mut ib_qp_attr,
    mask: u32,
}

/// Writes the functions that set a number: the bit in the mask, and the members with their types.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $bit:ident { $($member:ident: $type:ty),* };)*) => {
        $(
            $(#[$doc])*
            pub fn $name(&mut self, $($member: $type),*) -> &mut Self {
                $(self.attr.$member = $member;)*
                self.mask |= bindings::$bit;
                self
            }
        )*
    };
}

impl Filling<'_> {
    setters! {
        /// The access that is allowed to the peer: `IB_ACCESS_*`.
        access: IB_QP_ACCESS_FLAGS { qp_access_flags: c_int };
        /// The index of the partition key.
        pkey_index: IB_QP_PKEY_INDEX { pkey_index: u16 };
        /// The port.
        port: IB_QP_PORT { port_num: u32 };
        /// The MTU of the path: `enum ib_mtu`.
        path_mtu: IB_QP_PATH_MTU { path_mtu: bindings::ib_mtu };
        /// The number of the peer's queue pair.
        dest_qp: IB_QP_DEST_QPN { dest_qp_num: u32 };
        /// The PSN that is expected first.
        rq_psn: IB_QP_RQ_PSN { rq_psn: u32 };
        /// The PSN that is sent first.
        sq_psn: IB_QP_SQ_PSN { sq_psn: u32 };
        /// The number of outstanding READs and atomic operations that are received.
        max_dest_rd_atomic: IB_QP_MAX_DEST_RD_ATOMIC { max_dest_rd_atomic: u8 };
        /// The number of outstanding READs and atomic operations that are sent.
        max_rd_atomic: IB_QP_MAX_QP_RD_ATOMIC { max_rd_atomic: u8 };
        /// The time that a peer waits which finds no receive request.
        min_rnr_timer: IB_QP_MIN_RNR_TIMER { min_rnr_timer: u8 };
        /// The number of retries without an acknowledgement.
        retry_cnt: IB_QP_RETRY_CNT { retry_cnt: u8 };
        /// The number of retries without a receive request of the peer.
        rnr_retry: IB_QP_RNR_RETRY { rnr_retry: u8 };
        /// The time of an acknowledgement.
        timeout: IB_QP_TIMEOUT { timeout: u8 };
        /// The state of the migration to another path: `enum ib_mig_state`.
        path_mig_state: IB_QP_PATH_MIG_STATE { path_mig_state: bindings::ib_mig_state };
    }

    /// The address of the peer. `dlid` is the LID for data of InfiniBand, if it is another one than that for messages.
    pub fn address(&mut self, vector: &AddressVector, dlid: Option<u16>) -> &mut Self {
        self.attr.ah_attr = *vector.raw();
        if let (bindings::RDMA_AH_ATTR_TYPE_IB, Some(dlid)) = (self.attr.ah_attr.type_, dlid) {
            self.attr.ah_attr.__bindgen_anon_1.ib.dlid = dlid;
        }
        self.mask |= bindings::IB_QP_AV;
        self
    }

    /// The address of the peer by the alternate path, with its port, partition and time.
    pub fn alternate(
        &mut self,
        vector: &AddressVector,
        port: u32,
        pkey_index: u16,
        timeout: u8,
    ) -> &mut Self {
        self.attr.alt_ah_attr = *vector.raw();
        self.attr.alt_port_num = port;
        self.attr.alt_pkey_index = pkey_index;
        self.attr.alt_timeout = timeout;
        self.mask |= bindings::IB_QP_ALT_PATH;
        self
    }

    /// The state changes to the one that the attributes are for, which the caller has filled in.
    pub fn state(&mut self) -> &mut Self {
        self.mask |= bindings::IB_QP_STATE;
        self
    }

    /// The mask of the attributes that are filled in.
    pub fn mask(&self) -> c_int {
        self.mask as c_int
    }
}
