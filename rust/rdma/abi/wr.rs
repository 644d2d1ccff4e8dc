// SPDX-License-Identifier: GPL-2.0

//! Flags and addresses of work requests: `enum ib_send_flags`, `struct ib_sge` and `struct ib_rdma_wr` of
//! `include/rdma/ib_verbs.h`.

use rdma_bindings::{self as bindings, ib_sge};

c_flags! {
    /// The flags of a send request: `enum ib_send_flags`.
    pub struct SendFlags(u32) {
        /// The request starts after earlier RDMA READs and atomics have completed.
        FENCE = bindings::IB_SEND_FENCE;
        /// The request generates a completion.
        SIGNALED = bindings::IB_SEND_SIGNALED;
        /// The completion at the receiver is a solicited one.
        SOLICITED = bindings::IB_SEND_SOLICITED;
        /// The data is copied when the request is posted.
        INLINE = bindings::IB_SEND_INLINE;
        /// The device computes the IP checksum.
        IP_CSUM = bindings::IB_SEND_IP_CSUM;
    }
}

/// A scatter/gather element: `struct ib_sge`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sge {
    /// The address.
    pub addr: u64,
    /// The length in bytes.
    pub length: u32,
    /// The local key.
    pub lkey: u32,
}

const _: () = {
    assert!(core::mem::size_of::<Sge>() == core::mem::size_of::<ib_sge>());
    assert!(core::mem::offset_of!(Sge, addr) == core::mem::offset_of!(ib_sge, addr));
    assert!(core::mem::offset_of!(Sge, length) == core::mem::offset_of!(ib_sge, length));
    assert!(core::mem::offset_of!(Sge, lkey) == core::mem::offset_of!(ib_sge, lkey));
};

/// An address in remote memory, with its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// The address.
    pub addr: u64,
    /// The remote key.
    pub rkey: u32,
}
