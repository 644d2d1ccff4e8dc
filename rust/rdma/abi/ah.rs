// SPDX-License-Identifier: GPL-2.0

//! Address vectors: `struct rdma_ah_attr` and `struct ib_global_route` of `include/rdma/ib_verbs.h`.

use rdma_bindings::{self as bindings, rdma_ah_attr};

use super::gid::Gid;

/// An address vector without a reference to its source GID entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AhFields {
    /// The GRH; always `Some` for RoCE.
    pub grh: Option<GlobalRoute>,
    /// The service level, 0 to 15 (RoCE: 0 to 7).
    pub sl: u8,
    /// The maximum static rate: `enum ib_rate`.
    pub static_rate: u8,
    /// The port, from 1.
    pub port_num: u32,
    /// The destination's MAC address, for RoCE.
    pub dmac: [u8; 6],
}

impl AhFields {
    /// A RoCE address vector without a reference to its source GID entry: the core looks the entry up by its index, and the
    /// result of a query has none.
    pub(crate) fn to_raw(self) -> rdma_ah_attr {
        let mut raw: rdma_ah_attr = pin_init::zeroed();
        raw.type_ = bindings::RDMA_AH_ATTR_TYPE_ROCE;
        raw.sl = self.sl;
        raw.static_rate = self.static_rate;
        raw.port_num = self.port_num;
        raw.__bindgen_anon_1.roce = bindings::roce_ah_attr { dmac: self.dmac };
        if let Some(grh) = &self.grh {
            raw.ah_flags = bindings::IB_AH_GRH as u8;
            raw.grh.dgid = grh.dgid.to_raw();
            raw.grh.flow_label = grh.flow_label;
            raw.grh.sgid_index = grh.sgid_index;
            raw.grh.hop_limit = grh.hop_limit;
            raw.grh.traffic_class = grh.traffic_class;
        }
        raw
    }

    /// The fields of a C address vector. One that is not of RoCE has no MAC address.
    pub fn from_raw(raw: &rdma_ah_attr) -> Self {
        let has_grh = raw.ah_flags & bindings::IB_AH_GRH as u8 != 0;
        let dmac = match raw.type_ {
            // SAFETY: The type selects the member of the union, which is plain data.
            bindings::RDMA_AH_ATTR_TYPE_ROCE => unsafe { raw.__bindgen_anon_1.roce.dmac },
            _ => [0; 6],
        };
        Self {
            grh: has_grh.then(|| GlobalRoute {
                dgid: Gid::from_raw(&raw.grh.dgid),
                flow_label: raw.grh.flow_label,
                sgid_index: raw.grh.sgid_index,
                hop_limit: raw.grh.hop_limit,
                traffic_class: raw.grh.traffic_class,
            }),
            sl: raw.sl,
            static_rate: raw.static_rate,
            port_num: raw.port_num,
            dmac,
        }
    }
}

/// A GRH: `struct ib_global_route` without a reference to its source GID entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The destination GID.
    pub dgid: Gid,
    /// The flow label, 20 bits.
    pub flow_label: u32,
    /// The index of the source GID in the port's table.
    pub sgid_index: u8,
    /// The hop limit.
    pub hop_limit: u8,
    /// The traffic class.
    pub traffic_class: u8,
}
