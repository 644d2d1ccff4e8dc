// SPDX-License-Identifier: GPL-2.0

//! Headers of MADs, and properties of management classes.
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
    /// Vendor classes with an OUI.
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
    /// Stops the repetition of a trap.
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
/// Length of a MAD, in bytes.
pub(crate) const MAD_SIZE: usize = c::IB_MGMT_MAD_SIZE as usize;
/// Maximum length of an Omni-Path MAD, in bytes.
pub(crate) const OPA_MAD_SIZE: usize = c::OPA_MGMT_MAD_SIZE as usize;
/// Length of the common MAD header, in bytes.
pub(crate) const MAD_HEADER: usize = c::IB_MGMT_MAD_HDR as usize;
/// Length of the common and the RMPP header, in bytes.
pub(crate) const RMPP_HEADER: usize = c::IB_MGMT_RMPP_HDR as usize;
/// `IB_MGMT_CLASSPORTINFO_ATTR_ID`.
pub(crate) const CLASS_PORT_INFO: u16 = 0x0001;
/// A method, or an attribute of it, is not supported.
pub(crate) const STATUS_UNSUPPORTED: u16 = 0x000c;

/// Offset of the method in a MAD.
pub(crate) const METHOD_AT: usize = 3;
/// Offset of the status in a MAD.
pub(crate) const STATUS_AT: usize = 4;
/// Offset of the OUI in a vendor MAD.
pub(crate) const OUI_AT: usize = 37;

/// The common MAD header, in host byte order.
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
    /// Parses the header of a MAD.
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

    /// Whether the MAD is a response, which its transaction ID assigns to an agent.
    pub(crate) fn is_response(&self) -> bool {
        self.method & method::RESP != 0
            || self.method == method::TRAP_REPRESS
            || self.mgmt_class == class::BM && self.attr_mod & 1 != 0
    }

    /// Whether the MAD has a directed route.
    pub(crate) fn is_directed_route(&self) -> bool {
        self.mgmt_class == class::SUBN_DIRECTED_ROUTE
    }

    /// Whether the MAD is an SMP, for QP0.
    pub(crate) fn is_smp(&self) -> bool {
        self.mgmt_class == class::SUBN_LID_ROUTED || self.is_directed_route()
    }

    /// The upper half of the transaction ID: the number of the agent that sent the request.
    pub(crate) fn hi_tid(&self) -> u32 {
        (self.tid >> 32) as u32
    }
}

/// Whether MADs of a class may have an RMPP header.
pub(crate) fn has_rmpp(mgmt_class: u8) -> bool {
    matches!(
        mgmt_class,
        class::SUBN_ADM | class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS
    ) || class::VENDOR_RANGE2.contains(&mgmt_class)
}

/// Offset of the data in MADs of a class.
pub(crate) fn data_offset(mgmt_class: u8) -> usize {
    let offset = match mgmt_class {
        class::SUBN_ADM => c::IB_MGMT_SA_HDR,
        class::DEVICE_MGMT | class::DEVICE_ADM | class::BIS => c::IB_MGMT_DEVICE_HDR,
        vendor if class::VENDOR_RANGE2.contains(&vendor) => c::IB_MGMT_VENDOR_HDR,
        _ => c::IB_MGMT_MAD_HDR,
    };
    offset as usize
}

/// RMPP packet types.
pub(crate) mod rmpp_type {
    pub(crate) const DATA: u8 = 1;
    pub(crate) const ACK: u8 = 2;
    pub(crate) const STOP: u8 = 3;
    pub(crate) const ABORT: u8 = 4;
}

/// RMPP flags.
pub(crate) mod rmpp_flag {
    /// The packet has an active RMPP header.
    pub(crate) const ACTIVE: u8 = 1;
    pub(crate) const FIRST: u8 = 2;
    pub(crate) const LAST: u8 = 4;
    /// All flags; the other bits are the response time.
    pub(crate) const ALL: u8 = 7;
}

/// Status of RMPP STOP and ABORT packets (table 13.18 of the specification).
pub(crate) mod rmpp_status {
    /// Resources exhausted (STOP).
    pub(crate) const RESX: u8 = 1;
    /// The range of ABORT statuses.
    pub(crate) const ABORT: core::ops::RangeInclusive<u8> = T2L..=127;
    /// Total transaction time exceeded.
    pub(crate) const T2L: u8 = 118;
    /// Invalid segment number.
    pub(crate) const BAD_SEGMENT: u8 = 120;
    /// Invalid RMPP type.
    pub(crate) const BAD_TYPE: u8 = 121;
    /// New window last is smaller than the segment number.
    pub(crate) const W2S: u8 = 122;
    /// Segment number beyond the window, or not existing.
    pub(crate) const S2B: u8 = 123;
    /// Illegal status.
    pub(crate) const BAD_STATUS: u8 = 124;
    /// RMPP version not supported.
    pub(crate) const UNSUPPORTED_VERSION: u8 = 125;
}

/// RMPP version.
pub(crate) const RMPP_VERSION: u8 = 1;

/// Offset of the RMPP header in a MAD.
pub(crate) const RMPP_AT: usize = MAD_HEADER;

/// The RMPP header, in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rmpp {
    pub(crate) version: u8,
    pub(crate) kind: u8,
    /// The response time in the upper five bits, [`rmpp_flag`] in the others.
    pub(crate) time_flags: u8,
    pub(crate) status: u8,
    pub(crate) segment: u32,
    /// The payload length in DATA packets, the new window last in ACK packets.
    pub(crate) length_or_window: u32,
}

/// Length of the RMPP header, in bytes.
const RMPP_BYTES: usize = 12;

impl Rmpp {
    /// Parses the RMPP header.
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

    /// The header as bytes.
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

    /// Whether the RMPP header is active.
    pub(crate) fn is_active(&self) -> bool {
        self.has(rmpp_flag::ACTIVE)
    }

    /// Sets the flags.
    pub(crate) fn set_flags(&mut self, flags: u8) {
        self.time_flags = self.time_flags & !rmpp_flag::ALL | flags & rmpp_flag::ALL;
    }
}
