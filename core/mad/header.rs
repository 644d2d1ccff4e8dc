// SPDX-License-Identifier: GPL-2.0

//! The headers that management datagrams begin with, and what the management classes are like.
//!
//! IBTA specification, volume 1, section 13.4: the common MAD header (13.4.3), classes (13.4.4), methods (13.4.5),
//! attribute modifiers; section 13.6.2: the header of RMPP.

use kernel_ext::bindings as c;

/// Management classes.
pub(crate) mod class {
    /// Subnet management, routed by LID.
    pub(crate) const SUBN_LID_ROUTED: u8 = 0x01;
    /// Subnet management, by directed route.
    pub(crate) const SUBN_DIRECTED_ROUTE: u8 = 0x81;
    /// Subnet administration.
    pub(crate) const SUBN_ADM: u8 = 0x03;
    /// Baseboard management.
    pub(crate) const BM: u8 = 0x05;
    /// Device management.
    pub(crate) const DEVICE_MGMT: u8 = 0x06;
    /// Communication management.
    pub(crate) const CM: u8 = 0x07;
    /// Device administration.
    pub(crate) const DEVICE_ADM: u8 = 0x10;
    /// Boot management.
    pub(crate) const BIS: u8 = 0x12;
    /// Classes of vendors that name themselves by an OUI.
    pub(crate) const VENDOR_RANGE2: core::ops::RangeInclusive<u8> = 0x30..=0x4f;
}

/// Methods.
pub(crate) mod method {
    /// Asks for an attribute.
    pub(crate) const GET: u8 = 0x01;
    /// Sets an attribute.
    pub(crate) const SET: u8 = 0x02;
    /// Sends a datagram that has no response.
    pub(crate) const SEND: u8 = 0x03;
    /// Ends that a trap is repeated.
    pub(crate) const TRAP_REPRESS: u8 = 0x07;
    /// Asks for a table.
    pub(crate) const GET_TABLE: u8 = 0x12;
    /// Deletes a record.
    pub(crate) const DELETE: u8 = 0x15;
    /// The answer to [`GET`] and [`SET`].
    pub(crate) const GET_RESP: u8 = 0x81;
    /// The bit of responses.
    pub(crate) const RESP: u8 = 0x80;
}

/// The version of MADs.
pub(crate) const BASE_VERSION: u8 = 1;
/// The version of MADs of Omni-Path.
pub(crate) const OPA_BASE_VERSION: u8 = 0x80;
/// How many bytes a MAD has.
pub(crate) const MAD_SIZE: usize = c::IB_MGMT_MAD_SIZE as usize;
/// How many bytes a MAD of Omni-Path has at most.
pub(crate) const OPA_MAD_SIZE: usize = c::OPA_MGMT_MAD_SIZE as usize;
/// How many bytes the common header has.
pub(crate) const MAD_HEADER: usize = c::IB_MGMT_MAD_HDR as usize;
/// How many bytes the headers have with that of RMPP.
pub(crate) const RMPP_HEADER: usize = c::IB_MGMT_RMPP_HDR as usize;
/// `IB_MGMT_CLASSPORTINFO_ATTR_ID`.
pub(crate) const CLASS_PORT_INFO: u16 = 0x0001;
/// A method, or an attribute of it, is not supported.
pub(crate) const STATUS_UNSUPPORTED: u16 = 0x000c;

/// Where the method is in a MAD.
pub(crate) const METHOD_AT: usize = 3;
/// Where the status is in a MAD.
pub(crate) const STATUS_AT: usize = 4;
/// Where the OUI is in a MAD of a vendor.
pub(crate) const OUI_AT: usize = 37;

/// The common header, in the processor's order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) base_version: u8,
    pub(crate) mgmt_class: u8,
    pub(crate) class_version: u8,
    pub(crate) method: u8,
    pub(crate) status: u16,
    /// The transaction ID.
    pub(crate) tid: u64,
    pub(crate) attr_id: u16,
    pub(crate) attr_mod: u32,
}

impl Header {
    /// The header that a MAD begins with.
    pub(crate) fn parse(bytes: &[u8; MAD_HEADER]) -> Self {
        let [base_version, mgmt_class, class_version, method, s0, s1, _, _, rest @ ..] = *bytes;
        let [t0, t1, t2, t3, t4, t5, t6, t7, a0, a1, _, _, m0, m1, m2, m3] = rest;
        Self {
            base_version,
            mgmt_class,
            class_version,
            method,
            status: u16::from_be_bytes([s0, s1]),
            tid: u64::from_be_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            attr_id: u16::from_be_bytes([a0, a1]),
            attr_mod: u32::from_be_bytes([m0, m1, m2, m3]),
        }
    }

    /// Whether the MAD is a response: it is for who has the transaction ID.
    pub(crate) fn is_response(&self) -> bool {
        self.method & method::RESP != 0
            || self.method == method::TRAP_REPRESS
            || self.mgmt_class == class::BM && self.attr_mod & 1 != 0
    }

    /// Whether the MAD goes by directed route.
    pub(crate) fn is_directed_route(&self) -> bool {
        self.mgmt_class == class::SUBN_DIRECTED_ROUTE
    }

    /// Whether the MAD is of subnet management, for QP0.
    pub(crate) fn is_smp(&self) -> bool {
        self.mgmt_class == class::SUBN_LID_ROUTED || self.is_directed_route()
    }

    /// The agent that has made the transaction ID.
    pub(crate) fn hi_tid(&self) -> u32 {
        (self.tid >> 32) as u32
    }
}

/// Whether MADs of a class may have a header of RMPP.
pub(crate) fn has_rmpp(mgmt_class: u8) -> bool {
    matches!(
        mgmt_class,
        class::SUBN_ADM | class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS
    ) || class::VENDOR_RANGE2.contains(&mgmt_class)
}

/// Where the data of a MAD of a class begins.
pub(crate) fn data_offset(mgmt_class: u8) -> usize {
    let offset = match mgmt_class {
        class::SUBN_ADM => c::IB_MGMT_SA_HDR,
        class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS => c::IB_MGMT_DEVICE_HDR,
        vendor if class::VENDOR_RANGE2.contains(&vendor) => c::IB_MGMT_VENDOR_HDR,
        _ => c::IB_MGMT_MAD_HDR,
    };
    offset as usize
}

/// Types of packets of RMPP.
pub(crate) mod rmpp_type {
    pub(crate) const DATA: u8 = 1;
    pub(crate) const ACK: u8 = 2;
    pub(crate) const STOP: u8 = 3;
    pub(crate) const ABORT: u8 = 4;
}

/// Flags of packets of RMPP.
pub(crate) mod rmpp_flag {
    /// The packet is one of RMPP.
    pub(crate) const ACTIVE: u8 = 1;
    pub(crate) const FIRST: u8 = 2;
    pub(crate) const LAST: u8 = 4;
    /// All of them; the other bits are the time to respond.
    pub(crate) const ALL: u8 = 7;
}

/// Why a transaction of RMPP was stopped or aborted (table 13.18 of the specification).
pub(crate) mod rmpp_status {
    /// Resources are exhausted; in a STOP.
    pub(crate) const RESX: u8 = 1;
    /// The first and the last of those of an ABORT.
    pub(crate) const ABORT: core::ops::RangeInclusive<u8> = T2L..=127;
    /// The whole transaction has taken too long.
    pub(crate) const T2L: u8 = 118;
    /// The segment's number makes no sense.
    pub(crate) const BAD_SEGMENT: u8 = 120;
    /// The type makes no sense.
    pub(crate) const BAD_TYPE: u8 = 121;
    /// The window ends before the segment.
    pub(crate) const W2S: u8 = 122;
    /// The segment is beyond the window, or there is no such segment.
    pub(crate) const S2B: u8 = 123;
    /// The status makes no sense.
    pub(crate) const BAD_STATUS: u8 = 124;
    /// The version is not supported.
    pub(crate) const UNSUPPORTED_VERSION: u8 = 125;
}

/// The version of RMPP.
pub(crate) const RMPP_VERSION: u8 = 1;

/// Where the header of RMPP is in a MAD.
pub(crate) const RMPP_AT: usize = MAD_HEADER;

/// The header of RMPP, in the processor's order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rmpp {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    /// The time to respond in the upper five bits, [`rmpp_flag`] in the others.
    pub(crate) time_flags: u8,
    pub(crate) status: u8,
    pub(crate) segment: u32,
    /// The length of the payload in DATA, the last segment that may be sent in ACK.
    pub(crate) length_or_window: u32,
}

/// How many bytes the header of RMPP has.
const RMPP_BYTES: usize = 12;

impl Rmpp {
    /// The header in its bytes.
    pub(crate) fn parse(bytes: &[u8; RMPP_BYTES]) -> Self {
        let [version, kind, time_flags, status, s0, s1, s2, s3, w0, w1, w2, w3] = *bytes;
        Self {
            version,
            kind,
            time_flags,
            status,
            segment: u32::from_be_bytes([s0, s1, s2, s3]),
            length_or_window: u32::from_be_bytes([w0, w1, w2, w3]),
        }
    }

    /// The bytes of the header.
    pub(crate) fn bytes(&self) -> [u8; RMPP_BYTES] {
        let [s0, s1, s2, s3] = self.segment.to_be_bytes();
        let [w0, w1, w2, w3] = self.length_or_window.to_be_bytes();
        let (time_flags, status) = (self.time_flags, self.status);
        [
            self.version,
            self.kind,
            time_flags,
            status,
            s0,
            s1,
            s2,
            s3,
            w0,
            w1,
            w2,
            w3,
        ]
    }

    /// Whether all these flags are set.
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.time_flags & flags == flags
    }

    /// Whether the packet is one of RMPP.
    pub(crate) fn is_active(&self) -> bool {
        self.has(rmpp_flag::ACTIVE)
    }

    /// Sets the flags.
    pub(crate) fn set_flags(&mut self, flags: u8) {
        self.time_flags = self.time_flags & !rmpp_flag::ALL | flags & rmpp_flag::ALL;
    }
}
