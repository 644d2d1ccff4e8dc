// SPDX-License-Identifier: GPL-2.0

//! Paths through a fabric: `struct sa_path_rec`, and members of multicast groups: `struct ib_sa_mcmember_rec`.
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel_ext::{entry::FromC, net::device::MacAddress};
use rdma_bindings::{self as bindings, ib_sa_mcmember_rec, sa_path_rec};

use crate::Gid;

/// A path, which its owner has lent for changing.
#[repr(transparent)]
pub struct Path(sa_path_rec);

/// What kind of fabric a path leads through: `enum sa_path_rec_type`.
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

    /// The type that GIDs of both ends have: `enum ib_gid_type`.
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

    /// The kind. What the header does not know is as InfiniBand, as the header has it.
    pub fn kind(&self) -> PathKind {
        match self.0.rec_type {
            bindings::SA_PATH_REC_TYPE_ROCE_V1 => PathKind::RoceV1,
            bindings::SA_PATH_REC_TYPE_ROCE_V2 => PathKind::RoceV2,
            bindings::SA_PATH_REC_TYPE_OPA => PathKind::Opa,
            _ => PathKind::Ib,
        }
    }

    /// The GID of the source.
    pub fn sgid(&self) -> Gid {
        Gid::from_raw(&self.0.sgid)
    }

    /// The GID of the destination.
    pub fn dgid(&self) -> Gid {
        Gid::from_raw(&self.0.dgid)
    }

    /// The LIDs of source and destination; zeros for RoCE.
    pub fn lids(&self) -> (u32, u32) {
        // SAFETY: The kind says which member there is; both are numbers, so any bytes are.
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
        // SAFETY: Any bytes are an address.
        let dmac = unsafe { self.0.__bindgen_anon_1.roce.dmac };
        self.kind().is_roce().then_some(dmac)
    }

    /// Whether it is known already that there is a route, for RoCE.
    pub fn is_resolved(&self) -> bool {
        // SAFETY: The kind says that C has a flag there, which may be read as a byte.
        let flag = unsafe {
            (&raw const self.0.__bindgen_anon_1.roce)
                .cast::<u8>()
                .read()
        };
        self.kind().is_roce() && flag != 0
    }

    /// Notes that there is a route, for RoCE.
    pub fn set_resolved(&mut self) {
        if self.kind().is_roce() {
            self.0.__bindgen_anon_1.roce.route_resolved = true;
        }
    }
}

// SAFETY: A transparent wrapper.
unsafe impl FromC for &mut Path {
    type Raw = *mut sa_path_rec;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the path is there; the caller lends it for changing.
        unsafe { &mut *raw.cast() }
    }
}

/// The GIDs of the group and of the port, of a member of a multicast group.
pub fn member_gids(member: &ib_sa_mcmember_rec) -> (Gid, Gid) {
    (Gid::from_raw(&member.mgid), Gid::from_raw(&member.port_gid))
}
