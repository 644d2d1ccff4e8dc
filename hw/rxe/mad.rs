// SPDX-License-Identifier: GPL-2.0

//! MADs that the device responds to: the performance counters of a port, shown in `ports/<number>/counters/` (IBTA volume 1, section
//! 16.1).

use rdma::abi::mad::{Mad, MadResult};

use crate::counters::{Counter, PortCounters};

/// `IB_MGMT_CLASS_PERF_MGMT`.
const PERFORMANCE: u8 = 0x04;
/// `IB_MGMT_METHOD_GET`.
const GET: u8 = 0x01;
/// `IB_MGMT_METHOD_GET_RESP`.
const GET_RESP: u8 = 0x81;
/// ClassPortInfo.
const CLASS_PORT_INFO: u16 = 0x0001;
/// PortCounters.
const PORT_COUNTERS: u16 = 0x0012;
/// PortCountersExtended.
const PORT_COUNTERS_EXT: u16 = 0x001d;

/// The method is not supported.
const UNSUPPORTED_METHOD: u16 = 0x0008;
/// The method does not support the attribute.
const UNSUPPORTED_ATTRIBUTE: u16 = 0x000c;
/// CapabilityMask of ClassPortInfo: extended counters are supported.
const HAS_EXTENDED: u16 = 0x0200;

/// Offset of an attribute of the class in a MAD: after 24 bytes of header and 40 reserved bytes.
const DATA: usize = 64;

/// The attribute that is written, in network byte order.
struct Attribute<'a>(&'a mut [u8]);

impl Attribute<'_> {
    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len());
        if let Some(place) = self.0.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
    }
}

/// Processes the MAD `input` of the port with these counters.
pub(crate) fn process(counters: &PortCounters, input: &Mad, output: &mut Mad) -> MadResult {
    let answered = MadResult::SUCCESS | MadResult::REPLY;
    output.bytes_mut().fill(0);
    if input.mgmt_class() != PERFORMANCE {
        output.set_status(UNSUPPORTED_METHOD);
        return MadResult::SUCCESS;
    }
    // Responses are for the requester, and there is nothing to set.
    if input.method() != GET {
        output.set_status(UNSUPPORTED_METHOD);
        return MadResult::SUCCESS;
    }
    output.set_answer_to(input, GET_RESP);
    let mut attribute = Attribute(output.bytes_mut().get_mut(DATA..).unwrap_or(&mut []));
    match input.attr_id() {
        // Base version and class version, then the capabilities.
        CLASS_PORT_INFO => attribute.put(2, &HAS_EXTENDED.to_be_bytes()),
        PORT_COUNTERS => port_counters(counters, &mut attribute),
        PORT_COUNTERS_EXT => port_counters_ext(counters, &mut attribute),
        _ => {
            output.set_status(UNSUPPORTED_ATTRIBUTE);
            return MadResult::SUCCESS;
        }
    }
    answered
}

/// Counters of fixed width saturate (16.1.3.5).
fn port_counters(counters: &PortCounters, attribute: &mut Attribute<'_>) {
    let downed = u8::try_from(counters.total(Counter::LinkDowned)).unwrap_or(u8::MAX);
    attribute.put(7, &[downed]);
}

/// Data is counted in four-byte words.
fn port_counters_ext(counters: &PortCounters, attribute: &mut Attribute<'_>) {
    let words = |counter| (counters.total(counter) >> 2).to_be_bytes();
    let packets = |counter| counters.total(counter).to_be_bytes();
    attribute.put(8, &words(Counter::SentBytes));
    attribute.put(16, &words(Counter::ReceivedBytes));
    attribute.put(24, &packets(Counter::SentPackets));
    attribute.put(32, &packets(Counter::ReceivedPackets));
}
