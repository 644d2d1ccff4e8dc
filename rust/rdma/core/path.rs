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

    /// `enum sa_path_rec_type`.
    fn as_raw(self) -> u32 {
        match self {
            Self::Ib => bindings::SA_PATH_REC_TYPE_IB,
            Self::RoceV1 => bindings::SA_PATH_REC_TYPE_ROCE_V1,
            Self::RoceV2 => bindings::SA_PATH_REC_TYPE_ROCE_V2,
            Self::Opa => bindings::SA_PATH_REC_TYPE_OPA,
        }
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

/// A path as a request for a connection describes it.
pub struct NewPath {
    /// The kind.
    pub kind: PathKind,
    /// The source GID.
    pub sgid: Gid,
    /// The destination GID.
    pub dgid: Gid,
    /// The LIDs of source and destination, for InfiniBand.
    pub lids: (u16, u16),
    /// The Ethernet address of the next hop, for RoCE.
    pub dmac: Option<[u8; 6]>,
    /// The service, in network byte order.
    pub service_id: u64,
    /// The partition key.
    pub pkey: u16,
    /// The flow label.
    pub flow_label: u32,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
    /// The service level.
    pub sl: u8,
    /// The MTU: `enum ib_mtu`.
    pub mtu: u8,
    /// The rate: `enum ib_rate`.
    pub rate: u8,
    /// The life time of a packet: 4.096 µs × 2^n.
    pub packet_life_time: u8,
}

impl Path {
    /// A path that can be used both ways, with the MTU, rate and life time that are named and no others. Its route is not resolved.
    pub fn new(new: &NewPath) -> Self {
        let mut raw: sa_path_rec = pin_init::zeroed();
        raw.rec_type = new.kind.as_raw();
        raw.sgid = new.sgid.to_raw();
        raw.dgid = new.dgid.to_raw();
        raw.service_id = new.service_id;
        raw.pkey = new.pkey.to_be();
        raw.flow_label = new.flow_label.to_be();
        raw.hop_limit = new.hop_limit;
        raw.traffic_class = new.traffic_class;
        raw.sl = new.sl;
        raw.reversible = 1;
        raw.mtu_selector = bindings::IB_SA_EQ as u8;
        raw.mtu = new.mtu;
        raw.rate_selector = bindings::IB_SA_EQ as u8;
        raw.rate = new.rate;
        raw.packet_life_time_selector = bindings::IB_SA_EQ as u8;
        raw.packet_life_time = new.packet_life_time;
        if new.kind == PathKind::Ib {
            raw.__bindgen_anon_1.ib.slid = new.lids.0.to_be();
            raw.__bindgen_anon_1.ib.dlid = new.lids.1.to_be();
        }
        if let (true, Some(dmac)) = (new.kind.is_roce(), new.dmac) {
            raw.__bindgen_anon_1.roce.dmac = dmac;
        }
        Self(raw)
    }

    /// A copy, which may be resolved without changing this one.
    pub fn duplicate(&self) -> Self {
        Self(self.0)
    }

    /// The C structure, for a function of the core.
    pub(in crate::core) fn as_raw(&mut self) -> *mut sa_path_rec {
        &mut self.0
    }

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

    /// Lets a path be one over Ethernet, of this kind, whose next hop is known.
    pub fn set_ethernet(&mut self, kind: PathKind, dmac: [u8; 6]) {
        self.0.rec_type = kind.as_raw();
        self.0.__bindgen_anon_1.roce.route_resolved = true;
        self.0.__bindgen_anon_1.roce.dmac = dmac;
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
