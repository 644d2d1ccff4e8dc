// SPDX-License-Identifier: GPL-2.0

//! Headers of UD packets, for devices whose drivers build them.
//!
//! Any context.
//!
//! C header: `include/rdma/ib_pack.h`. The headers are those of the IBTA specification, volume 1, chapter 9, annexes A16
//! and A17; IEEE 802.3, 802.1Q; RFC 768, RFC 791.

use kernel::{
    ffi::{c_int, c_void},
    prelude::*,
};
use kernel_ext::{bindings as c, entry::Out, export::export};
use rdma::abi::pack::{packed, Table};

use crate::verbs::ah_attr::ones_sum;

const LRH: Table<c::ib_unpacked_lrh> = packed! { c::ib_unpacked_lrh: 8 {
    0, 0, 4 [virtual_lane];
    0, 4, 4 [link_version];
    0, 8, 4 [service_level];
    0, 12, 2 [];
    0, 14, 2 [link_next_header];
    0, 16, 16 [destination_lid];
    1, 0, 5 [];
    1, 5, 11 [packet_length];
    1, 16, 16 [source_lid];
} };

const ETH: Table<c::ib_unpacked_eth> = packed! { c::ib_unpacked_eth: 14 {
    0, 0, 32 [dmac_h];
    1, 0, 16 [dmac_l];
    1, 16, 16 [smac_h];
    2, 0, 32 [smac_l];
    3, 0, 16 [type_];
} };

const VLAN: Table<c::ib_unpacked_vlan> = packed! { c::ib_unpacked_vlan: 4 {
    0, 0, 16 [tag];
    0, 16, 16 [type_];
} };

const IP4: Table<c::ib_unpacked_ip4> = packed! { c::ib_unpacked_ip4: 20 {
    0, 0, 4 [ver];
    0, 4, 4 [hdr_len];
    0, 8, 8 [tos];
    0, 16, 16 [tot_len];
    1, 0, 16 [id];
    1, 16, 16 [frag_off];
    2, 0, 8 [ttl];
    2, 8, 8 [protocol];
    2, 16, 16 [check];
    3, 0, 32 [saddr];
    4, 0, 32 [daddr];
} };

const UDP: Table<c::ib_unpacked_udp> = packed! { c::ib_unpacked_udp: 8 {
    0, 0, 16 [sport];
    0, 16, 16 [dport];
    1, 0, 16 [length];
    1, 16, 16 [csum];
} };

const GRH: Table<c::ib_unpacked_grh> = packed! { c::ib_unpacked_grh: 40 {
    0, 0, 4 [ip_version];
    0, 4, 8 [traffic_class];
    0, 12, 20 [flow_label];
    1, 0, 16 [payload_length];
    1, 16, 8 [next_header];
    1, 24, 8 [hop_limit];
    2, 0, 128 [source_gid];
    6, 0, 128 [destination_gid];
} };

const BTH: Table<c::ib_unpacked_bth> = packed! { c::ib_unpacked_bth: 12 {
    0, 0, 8 [opcode];
    0, 8, 1 [solicited_event];
    0, 9, 1 [mig_req];
    0, 10, 2 [pad_count];
    0, 12, 4 [transport_header_version];
    0, 16, 16 [pkey];
    1, 0, 8 [];
    1, 8, 24 [destination_qpn];
    2, 0, 1 [ack_req];
    2, 1, 7 [];
    2, 8, 24 [psn];
} };

const DETH: Table<c::ib_unpacked_deth> = packed! { c::ib_unpacked_deth: 8 {
    0, 0, 32 [qkey];
    1, 0, 8 [];
    1, 8, 24 [source_qpn];
} };

/// Immediate data.
const IMMEDIATE: Table<c::ib_ud_header> = packed! { c::ib_ud_header: 4 {
    0, 0, 32 [immediate_data];
} };

/// The next header value of a GRH that is followed by a BTH.
const NEXT_HEADER_BTH: u8 = 0x1b;

/// Length of the InfiniBand headers of each datagram, and the ICRC after the payload.
const TRANSPORT_BYTES: u16 = (c::IB_BTH_BYTES + c::IB_DETH_BYTES + c::IB_ICRC_BYTES) as u16;

/// Which headers a datagram has: a number other than zero stands for a header that is present.
struct Parts {
    lrh: c_int,
    eth: c_int,
    vlan: c_int,
    grh: c_int,
    ip_version: c_int,
    udp: c_int,
    immediate: c_int,
}

/// Sets the fields that depend on the payload length and the headers present.
fn fill(header: &mut c::ib_ud_header, payload: c_int, parts: &Parts) -> Result {
    let (is_v4, is_v6) = (parts.ip_version == 4, parts.ip_version == 6);
    let has_udp = parts.udp != 0;
    if has_udp && !is_v4 && !is_v6 {
        return Err(EINVAL);
    }
    let grh = parts.grh != 0 && parts.ip_version == 0;
    // Lengths wrap at the width of their fields; such packets cannot be sent.
    let transport = TRANSPORT_BYTES.wrapping_add(payload as u16);
    let udp = if has_udp { c::IB_UDP_BYTES as u16 } else { 0 };
    let datagram = udp.wrapping_add(transport);
    if parts.lrh != 0 {
        let route = if grh { c::IB_GRH_BYTES as u16 } else { 0 };
        let bytes = (c::IB_LRH_BYTES as u16).wrapping_add(route);
        let words = u32::from(bytes.wrapping_add(transport)).div_ceil(4);
        let next = if grh {
            c::IB_LNH_IBA_GLOBAL
        } else {
            c::IB_LNH_IBA_LOCAL
        };
        header.lrh.link_next_header = next as u8;
        header.lrh.packet_length = (words as u16).to_be();
    }
    if parts.vlan != 0 {
        header.eth.type_ = (c::ETH_P_8021Q as u16).to_be();
    }
    if is_v6 || grh {
        header.grh.ip_version = 6;
        header.grh.payload_length = (datagram.wrapping_add(3) & !3).to_be();
        header.grh.next_header = if has_udp {
            c::IPPROTO_UDP as u8
        } else {
            NEXT_HEADER_BTH
        };
    }
    if is_v4 {
        header.ip4.ver = 4;
        header.ip4.hdr_len = 5;
        header.ip4.tot_len = (c::IB_IP4_BYTES as u16).wrapping_add(datagram).to_be();
        header.ip4.protocol = c::IPPROTO_UDP as u8;
    }
    if has_udp {
        header.udp.length = datagram.to_be();
    }
    header.bth.opcode = match parts.immediate {
        0 => c::IB_OPCODE_UD_SEND_ONLY as u8,
        _ => c::IB_OPCODE_UD_SEND_ONLY_WITH_IMMEDIATE as u8,
    };
    header.bth.pad_count = (payload.wrapping_neg() & 3) as u8;
    header.lrh_present = parts.lrh;
    header.eth_present = parts.eth;
    header.vlan_present = parts.vlan;
    header.grh_present = (grh || is_v6).into();
    header.ipv4_present = is_v4.into();
    header.udp_present = parts.udp;
    header.immediate_present = parts.immediate;
    Ok(())
}

/// Sets the header fields that depend on the payload length in bytes and on the headers present; the others are zeroed.
/// A GRH is present only without `ip_version`.
///
/// # Errors
///
/// `EINVAL` for UDP without an IPv4 or IPv6 header.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_ud_header_init(
    payload_bytes: c_int,
    lrh_present: c_int,
    eth_present: c_int,
    vlan_present: c_int,
    grh_present: c_int,
    ip_version: c_int,
    udp_present: c_int,
    immediate_present: c_int,
    header: Out<'_, c::ib_ud_header>,
) -> Result {
    let parts = Parts {
        lrh: lrh_present,
        eth: eth_present,
        vlan: vlan_present,
        grh: grh_present,
        ip_version,
        udp: udp_present,
        immediate: immediate_present,
    };
    fill(header.zeroed(), payload_bytes, &parts)
}

/// Returns the checksum of the IPv4 header, without options, in network byte order.
#[export]
fn ib_ud_ip4_csum(header: &mut c::ib_ud_header) -> c::__sum16 {
    let mut ip4 = header.ip4;
    ip4.ver = 4;
    ip4.hdr_len = 5;
    ip4.check = 0;
    let mut bytes = [0; 20];
    match IP4.pack(&ip4, &mut bytes) {
        Ok(()) => (!ones_sum(&bytes)).to_be(),
        Err(_) => 0,
    }
}

/// Length of all headers together.
const ALL_BYTES: usize = 118;

/// A buffer of consecutive headers.
struct Headers {
    bytes: [u8; ALL_BYTES],
    length: usize,
}

impl Headers {
    /// Packs a header, if it is `present`.
    fn put<T>(&mut self, present: c_int, table: &Table<T>, header: &T) {
        if present == 0 {
            return;
        }
        let room = self.bytes.get_mut(self.length..).unwrap_or_default();
        if table.pack(header, room).is_ok() {
            self.length = self.length.wrapping_add(table.length());
        }
    }

    /// Packs all headers that are present, in wire order.
    fn of(header: &c::ib_ud_header) -> Self {
        let mut all = Self {
            bytes: [0; ALL_BYTES],
            length: 0,
        };
        all.put(header.lrh_present, &LRH, &header.lrh);
        all.put(header.eth_present, &ETH, &header.eth);
        all.put(header.vlan_present, &VLAN, &header.vlan);
        all.put(header.grh_present, &GRH, &header.grh);
        all.put(header.ipv4_present, &IP4, &header.ip4);
        all.put(header.udp_present, &UDP, &header.udp);
        all.put(1, &BTH, &header.bth);
        all.put(1, &DETH, &header.deth);
        all.put(header.immediate_present, &IMMEDIATE, header);
        all
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Packs the headers of a datagram; returns their length.
///
/// # Safety
///
/// `header` is filled in, and there is room for the headers that it has at `buf`.
#[export]
unsafe extern "C" fn ib_ud_header_pack(header: *mut c::ib_ud_header, buf: *mut c_void) -> c_int {
    // SAFETY: By the safety requirements.
    let headers = Headers::of(unsafe { &*header });
    let bytes = headers.bytes();
    // SAFETY: By the safety requirements.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), bytes.len()) };
    bytes.len() as c_int
}
