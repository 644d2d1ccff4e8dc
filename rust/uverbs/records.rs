// SPDX-License-Identifier: GPL-2.0

//! The LIDs of address vectors and path records: members of a union, which the type of the address vector or path record selects.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/ib_sa.h`.

use rdma::core::Device;
use rdma::{Gid, MaySleep};
use rdma_bindings::{self as bindings, rdma_ah_attr, sa_path_rec};

/// The destination LID of an address vector of an OPA port, which has 32 bits. `None` for other types.
pub fn opa_dlid(vector: &rdma_ah_attr) -> Option<u32> {
    // SAFETY: Any value of the member is valid.
    let dlid = unsafe { vector.__bindgen_anon_1.opa.dlid };
    (vector.type_ == bindings::RDMA_AH_ATTR_TYPE_OPA).then_some(dlid)
}

/// The LIDs of a path, in host byte order.
#[derive(Clone, Copy, Default)]
pub struct PathLids {
    /// The destination LID.
    pub dlid: u32,
    /// The source LID.
    pub slid: u32,
    /// Whether the path is for raw packets.
    pub raw_traffic: u8,
    /// Whether the path is of an OPA fabric.
    pub is_opa: bool,
}

impl PathLids {
    /// The LIDs of a path record; zero for a RoCE path.
    pub fn of(record: &sa_path_rec) -> Self {
        // SAFETY: The kind selects the member of the union; all are plain data.
        unsafe {
            match record.rec_type {
                bindings::SA_PATH_REC_TYPE_IB => {
                    let ib = &record.__bindgen_anon_1.ib;
                    Self {
                        dlid: u16::from_be(ib.dlid).into(),
                        slid: u16::from_be(ib.slid).into(),
                        raw_traffic: ib.raw_traffic,
                        is_opa: false,
                    }
                }
                bindings::SA_PATH_REC_TYPE_OPA => {
                    let opa = &record.__bindgen_anon_1.opa;
                    Self {
                        dlid: u32::from_be(opa.dlid),
                        slid: u32::from_be(opa.slid),
                        raw_traffic: opa.raw_traffic,
                        is_opa: true,
                    }
                }
                _ => Self::default(),
            }
        }
    }
}

/// The destination GID and the source GID of a path record.
pub fn path_gids(record: &sa_path_rec) -> (Gid, Gid) {
    // SAFETY: Both members of a GID are the same bytes.
    unsafe { (Gid(record.dgid.raw), Gid(record.sgid.raw)) }
}

/// The subnet prefix of a port, in host byte order. `None` if the query fails.
pub fn subnet_prefix(device: &Device, port: u32, _sleep: &MaySleep) -> Option<u64> {
    let mut attr = pin_init::zeroed();
    // SAFETY: The device is valid, and the function fills in plain data.
    let ret = unsafe { bindings::ib_query_port(device.as_raw(), port, &mut attr) };
    (ret == 0).then_some(attr.subnet_prefix)
}
