// SPDX-License-Identifier: GPL-2.0

//! The parameters of messages that a client sends.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::marker::PhantomData;

use kernel::ffi::c_void;
use kernel_ext::entry::FromC;
use rdma_bindings::{
    self as bindings, ib_cm_rep_param, ib_cm_req_param, ib_cm_sidr_rep_param, ib_cm_sidr_req_param,
    rdma_ucm_ece,
};

use super::event::Ece;
use crate::core::{address_vector::Sgid, connection::PrivateData, path::Path};

/// Defines the parameters of a message as an argument of C, with functions that read its numbers.
macro_rules! param {
    (
        $(#[$doc:meta])* $name:ident($raw:ident);
        $($(#[$member_doc:meta])* $member:ident: $type:ty,)*
    ) => {
        $(#[$doc])*
        ///
        /// # Invariants
        ///
        /// The structure is filled in, with pointers that are null or valid for `'a`.
        #[derive(Clone, Copy)]
        pub struct $name<'a>(*const $raw, PhantomData<&'a $raw>);

        // SAFETY: `Raw` is the pointer type in the header.
        unsafe impl FromC for $name<'_> {
            type Raw = *mut $raw;

            #[inline]
            unsafe fn from_c(raw: Self::Raw) -> Self {
                // INVARIANT: By the header the parameters are filled in.
                Self(raw, PhantomData)
            }
        }

        impl<'a> $name<'a> {
            fn raw(self) -> &'a $raw {
                // SAFETY: By the type invariants; nobody writes to the structure during the call.
                unsafe { &*self.0 }
            }

            /// The private data for the peer.
            pub fn private_data(self) -> PrivateData<'a> {
                let raw = self.raw();
                // SAFETY: By the type invariants.
                unsafe { PrivateData::from_raw(raw.private_data, raw.private_data_len) }
            }

            $(
                $(#[$member_doc])*
                pub fn $member(self) -> $type {
                    self.raw().$member
                }
            )*
        }
    };
}

param! {
    /// The parameters of a REQ.
    ReqParam(ib_cm_req_param);
    /// The service, in network byte order.
    service_id: u64,
    /// The number of the queue pair.
    qp_num: u32,
    /// The type of that: `enum ib_qp_type`.
    qp_type: bindings::ib_qp_type,
    /// Its first PSN.
    starting_psn: u32,
    /// READs that the peer may ask for.
    responder_resources: u8,
    /// READs that the peer is asked for.
    initiator_depth: u8,
    /// How long the peer may take: 4.096 µs × 2^n.
    remote_cm_response_timeout: u8,
    /// Whether there is flow control from end to end.
    flow_control: u8,
    /// How long the client takes.
    local_cm_response_timeout: u8,
    /// Retries without an acknowledgement.
    retry_count: u8,
    /// Retries without a receive request.
    rnr_retry_count: u8,
    /// How often messages are repeated.
    max_cm_retries: u8,
    /// Whether the queue pair has an SRQ.
    srq: u8,
}

param! {
    /// The parameters of a REP.
    RepParam(ib_cm_rep_param);
    /// The number of the queue pair.
    qp_num: u32,
    /// Its first PSN.
    starting_psn: u32,
    /// READs that the peer may ask for.
    responder_resources: u8,
    /// READs that the peer is asked for.
    initiator_depth: u8,
    /// Whether the alternate path is accepted: 0 is yes.
    failover_accepted: u8,
    /// Whether there is flow control from end to end.
    flow_control: u8,
    /// Retries without a receive request.
    rnr_retry_count: u8,
    /// Whether the queue pair has an SRQ.
    srq: u8,
}

param! {
    /// The parameters of a SIDR_REQ.
    SidrReqParam(ib_cm_sidr_req_param);
    /// The service, in network byte order.
    service_id: u64,
    /// How long in milliseconds an answer is waited for.
    timeout_ms: usize,
    /// How often the message is repeated.
    max_cm_retries: u8,
}

param! {
    /// The parameters of a SIDR_REP.
    SidrRepParam(ib_cm_sidr_rep_param);
    /// The number of the queue pair.
    qp_num: u32,
    /// The Q_Key.
    qkey: u32,
    /// `enum ib_cm_sidr_status`.
    status: bindings::ib_cm_sidr_status,
}

fn ece(raw: &rdma_ucm_ece) -> Ece {
    Ece {
        vendor_id: raw.vendor_id,
        attr_mod: raw.attr_mod,
    }
}

/// A path of a client, which is null or valid for `'a`.
///
/// # Safety
///
/// See above.
unsafe fn path<'a>(raw: *const bindings::sa_path_rec) -> Option<&'a Path> {
    // SAFETY: By the safety requirements; the wrapper is transparent.
    unsafe { raw.cast::<Path>().as_ref() }
}

impl<'a> ReqParam<'a> {
    /// The path to the peer.
    pub fn primary_path(self) -> Option<&'a Path> {
        // SAFETY: By the type invariants.
        unsafe { path(self.raw().primary_path) }
    }

    /// The path from the peer, as the subnet administrator knows it.
    pub fn inbound_path(self) -> Option<&'a Path> {
        // SAFETY: By the type invariants.
        unsafe { path(self.raw().primary_path_inbound) }
    }

    /// The path to the peer for data, as the subnet administrator knows it.
    pub fn outbound_path(self) -> Option<&'a Path> {
        // SAFETY: By the type invariants.
        unsafe { path(self.raw().primary_path_outbound) }
    }

    /// The alternate path.
    pub fn alternate_path(self) -> Option<&'a Path> {
        // SAFETY: By the type invariants.
        unsafe { path(self.raw().alternate_path) }
    }

    /// The local GID of the primary path.
    pub fn sgid(self) -> Option<Sgid<'a>> {
        // SAFETY: By the type invariants; the client has a reference during the call.
        unsafe { Sgid::from_raw(self.raw().ppath_sgid_attr) }
    }

    /// The options of the vendor.
    pub fn ece(self) -> Ece {
        ece(&self.raw().ece)
    }
}

impl RepParam<'_> {
    /// The options of the vendor.
    pub fn ece(self) -> Ece {
        ece(&self.raw().ece)
    }
}

impl<'a> SidrReqParam<'a> {
    /// The path to the peer.
    pub fn path(self) -> Option<&'a Path> {
        // SAFETY: By the type invariants.
        unsafe { path(self.raw().path) }
    }

    /// The local GID of the path.
    pub fn sgid(self) -> Option<Sgid<'a>> {
        // SAFETY: By the type invariants; the client has a reference during the call.
        unsafe { Sgid::from_raw(self.raw().sgid_attr) }
    }
}

impl<'a> SidrRepParam<'a> {
    /// Further information for the peer.
    pub fn info(self) -> PrivateData<'a> {
        let raw = self.raw();
        // SAFETY: By the type invariants.
        unsafe { PrivateData::from_raw(raw.info, raw.info_length) }
    }

    /// The options of the vendor.
    pub fn ece(self) -> Ece {
        ece(&self.raw().ece)
    }
}

/// Further information of a refusal as an argument of C, which passes its length as another one; or none.
pub struct InfoArg<'a>(*mut c_void, PhantomData<&'a ()>);

/// The length that belongs to an [`InfoArg`].
pub struct InfoLenArg<'a>(u8, PhantomData<&'a ()>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for InfoArg<'_> {
    type Raw = *mut c_void;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for InfoLenArg<'_> {
    type Raw = u8;

    #[inline]
    unsafe fn from_c(raw: u8) -> Self {
        Self(raw, PhantomData)
    }
}

impl<'a> InfoArg<'a> {
    /// Joins the two arguments.
    pub fn with(self, length: InfoLenArg<'a>) -> PrivateData<'a> {
        // SAFETY: C alone makes both values, and they end with the call, so that they are of the same call, and by the header there are so
        // many bytes.
        unsafe { PrivateData::from_raw(self.0, length.0) }
    }
}
