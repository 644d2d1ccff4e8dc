// SPDX-License-Identifier: GPL-2.0

//! Paths through a fabric: `struct sa_path_rec`, and members of multicast groups: `struct ib_sa_mcmember_rec`.
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel_ext::{entry::FromC, net::device::MacAddress};
use rdma_bindings::{self as bindings, ib_sa_mcmember_rec, sa_path_rec};

use crate::Gid;

/// A path, which C lends for writing.
#[repr(transparent)]
pub struct Path(sa_path_rec);

/// The type of a path: `enum sa_path_rec_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// InfiniBand.
    Ib,
    /// RoCE version 1.
    RoceV1,
    /// RoCE version 2.
    RoceV2,
    /// Omni-Path.
    Opa,
}

impl PathKind {
    /// Whether it is RoCE.
    pub fn is_roce(self) -> bool {
        matches!(self, Self::RoceV1 | Self::RoceV2)
    }

    /// The GID type of both ends: `enum ib_gid_type`.
    pub fn gid_type(self) -> u32 {
        match self {
            Self::RoceV1 => bindings::IB_GID_TYPE_ROCE,
            Self::RoceV2 => bindings::IB_GID_TYPE_ROCE_UDP_ENCAP,
            Self::Ib | Self::Opa => bindings::IB_GID_TYPE_IB,
        }
    }
}

impl Path {
    /// The C structure.
    pub fn raw(&self) -> &sa_path_rec {
        &self.0
    }

    /// The kind. An unknown type counts as InfiniBand, as in the header.
    pub fn kind(&self) -> PathKind {
        match self.0.rec_type {
            bindings::SA_PATH_REC_TYPE_ROCE_V1 => PathKind::RoceV1,
            bindings::SA_PATH_REC_TYPE_ROCE_V2 => PathKind::RoceV2,
            bindings::SA_PATH_REC_TYPE_OPA => PathKind::Opa,
            _ => PathKind::Ib,
        }
    }

    /// The source GID.
    pub fn sgid(&self) -> Gid {
        Gid::from_raw(&self.0.sgid)
    }

    /// The destination GID.
    pub fn dgid(&self) -> Gid {
        Gid::from_raw(&self.0.dgid)
    }

    /// The LIDs of source and destination; zeros for RoCE.
    pub fn lids(&self) -> (u32, u32) {
        // SAFETY: The kind selects the member of the union; both are numbers, of which any bytes are valid.
        unsafe {
            match self.kind() {
                PathKind::Ib => {
                    let ib = &self.0.__bindgen_anon_1.ib;
                    (u16::from_be(ib.slid).into(), u16::from_be(ib.dlid).into())
                }
                PathKind::Opa => {
                    let opa = &self.0.__bindgen_anon_1.opa;
                    (u32::from_be(opa.slid), u32::from_be(opa.dlid))
                }
                PathKind::RoceV1 | PathKind::RoceV2 => (0, 0),
            }
        }
    }

    /// The Ethernet address of the next hop, for RoCE.
    pub fn dmac(&self) -> Option<MacAddress> {
        // SAFETY: Any bytes are a valid address.
        let dmac = unsafe { self.0.__bindgen_anon_1.roce.dmac };
        self.kind().is_roce().then_some(dmac)
    }

    /// Whether the route is resolved already, for RoCE.
    pub fn is_resolved(&self) -> bool {
        // SAFETY: The kind selects the member of the union; the flag is read as a byte, of which any value is
        // valid.
        let flag = unsafe {
            (&raw const self.0.__bindgen_anon_1.roce)
                .cast::<u8>()
                .read()
        };
        self.kind().is_roce() && flag != 0
    }

    /// Marks the route as resolved, for RoCE.
    pub fn set_resolved(&mut self) {
        if self.kind().is_roce() {
            self.0.__bindgen_anon_1.roce.route_resolved = true;
        }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for &mut Path {
    type Raw = *mut sa_path_rec;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the path is valid and lent for writing; the wrapper is
        // transparent.
        unsafe { &mut *raw.cast() }
    }
}

/// The GIDs of the group and of the port, of a member of a multicast group.
pub fn member_gids(member: &ib_sa_mcmember_rec) -> (Gid, Gid) {
    (Gid::from_raw(&member.mgid), Gid::from_raw(&member.port_gid))
}
