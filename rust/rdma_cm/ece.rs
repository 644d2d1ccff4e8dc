// SPDX-License-Identifier: GPL-2.0

//! Enhanced connection establishment: options of a device's vendor, which requests and replies carry.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use rdma::bindings::rdma_ucm_ece;

/// Options of a vendor: `struct rdma_ucm_ece`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// The vendor, by the 24 bits of its OUI; 0 for none.
    pub vendor_id: u32,
    /// The options, whose meaning is the vendor's.
    pub options: u32,
}

impl Ece {
    /// No options.
    pub const NONE: Self = Self {
        vendor_id: 0,
        options: 0,
    };

    pub(crate) fn from_raw(raw: &rdma_ucm_ece) -> Self {
        Self {
            vendor_id: raw.vendor_id,
            options: raw.attr_mod,
        }
    }

    pub(crate) fn to_raw(self) -> rdma_ucm_ece {
        rdma_ucm_ece {
            vendor_id: self.vendor_id,
            attr_mod: self.options,
        }
    }
}
