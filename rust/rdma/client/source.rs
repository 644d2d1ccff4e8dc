// SPDX-License-Identifier: GPL-2.0

//! The sender of a datagram: the members of a completion from which an address handle is made, `struct ib_wc`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use rdma_bindings::ib_wc;

/// The sender of a datagram, for a [reply](super::Ah::for_reply).
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The number of the sender's queue pair.
    pub qp_num: u32,
    slid: u32,
    flags: kernel::ffi::c_int,
    pkey_index: u16,
    sl: u8,
    dlid_path_bits: u8,
    smac: [u8; 6],
    vlan_id: u16,
    network_hdr_type: u8,
}

impl Source {
    /// The sender of the datagram with this completion.
    pub(super) fn of(wc: &ib_wc) -> Self {
        Self {
            qp_num: wc.src_qp,
            slid: wc.slid,
            flags: wc.wc_flags,
            pkey_index: wc.pkey_index,
            sl: wc.sl,
            dlid_path_bits: wc.dlid_path_bits,
            smac: wc.smac,
            vlan_id: wc.vlan_id,
            network_hdr_type: wc.network_hdr_type,
        }
    }

    /// A completion with the members from which the core derives the sender.
    pub(super) fn as_wc(&self) -> ib_wc {
        ib_wc {
            src_qp: self.qp_num,
            slid: self.slid,
            wc_flags: self.flags,
            pkey_index: self.pkey_index,
            sl: self.sl,
            dlid_path_bits: self.dlid_path_bits,
            smac: self.smac,
            vlan_id: self.vlan_id,
            network_hdr_type: self.network_hdr_type,
            ..pin_init::zeroed()
        }
    }
}
