// SPDX-License-Identifier: GPL-2.0

//! Port counters of the performance management class, which are read from the driver by `process_mad`.
//!
//! Reference: InfiniBand Architecture Specification, volume 1, 16.1.3 and 16.1.4.
//!
//! C header: `include/rdma/ib_pma.h`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::sysfs::{Name, Text};
use rdma::{
    core::{
        sysfs::{AttrContext, Behaviour, PortGroup},
        Device,
    },
    MaySleep,
};

/// The attribute `ClassPortInfo`.
const CLASS_PORT_INFO: u16 = 0x0001;
/// The attribute `PortCounters`.
const PORT_COUNTERS: u16 = 0x0012;
/// The attribute `PortCountersExtended`.
const PORT_COUNTERS_EXT: u16 = 0x001d;

/// Offset of `CapabilityMask` in `ClassPortInfo`.
const CAPABILITY_MASK: usize = 2;
/// Extended counters are supported.
const EXT_WIDTH: u16 = 0x0200;
/// Extended counters are supported, except for unicast and multicast counters.
const EXT_WIDTH_NOIETF: u16 = 0x0400;

/// A counter.
struct Counter {
    name: &'static CStr,
    attribute: u16,
    /// Its size, in bits.
    width: u8,
    /// Its offset in the attribute, in bits.
    at: u16,
}

const fn counter(name: &'static CStr, width: u8, at: u16) -> Counter {
    Counter {
        name,
        attribute: PORT_COUNTERS,
        width,
        at,
    }
}

const fn extended(name: &'static CStr, at: u16) -> Counter {
    Counter {
        name,
        attribute: PORT_COUNTERS_EXT,
        width: 64,
        at,
    }
}

const COUNTERS: [Counter; 25] = [
    // Counters of all ports.
    counter(c"symbol_error", 16, 32),
    counter(c"link_error_recovery", 8, 48),
    counter(c"link_downed", 8, 56),
    counter(c"port_rcv_errors", 16, 64),
    counter(c"port_rcv_remote_physical_errors", 16, 80),
    counter(c"port_rcv_switch_relay_errors", 16, 96),
    counter(c"port_xmit_discards", 16, 112),
    counter(c"port_xmit_constraint_errors", 8, 128),
    counter(c"port_rcv_constraint_errors", 8, 136),
    counter(c"local_link_integrity_errors", 4, 152),
    counter(c"excessive_buffer_overrun_errors", 4, 156),
    counter(c"VL15_dropped", 16, 176),
    counter(c"port_xmit_wait", 32, 320),
    // Counters of ports without extended counters.
    counter(c"port_xmit_data", 32, 192),
    counter(c"port_rcv_data", 32, 224),
    counter(c"port_xmit_packets", 32, 256),
    counter(c"port_rcv_packets", 32, 288),
    // Extended counters.
    extended(c"port_xmit_data", 64),
    extended(c"port_rcv_data", 128),
    extended(c"port_xmit_packets", 192),
    extended(c"port_rcv_packets", 256),
    // Extended unicast and multicast counters.
    extended(c"unicast_xmit_packets", 320),
    extended(c"unicast_rcv_packets", 384),
    extended(c"multicast_xmit_packets", 448),
    extended(c"multicast_rcv_packets", 512),
];

/// Number of counters of all ports; offsets of the other parts of the table follow.
const COMMON: u32 = 13;
const EXTENDED: u32 = 17;
const CASTS: u32 = 21;
const END: u32 = COUNTERS.len() as u32;

/// `counters/`, with the counters that the port supports.
pub(super) fn group(device: &Device, port: u32, sleep: &MaySleep) -> Result<PortGroup> {
    let info = device.driver_perf_get(port, CLASS_PORT_INFO, false, sleep);
    let can = info.map_or(0, |info| u16::from_be_bytes(info.bytes(CAPABILITY_MASK)));
    let more = if can & EXT_WIDTH != 0 {
        EXTENDED..END
    } else if can & EXT_WIDTH_NOIETF != 0 {
        EXTENDED..CASTS
    } else {
        COMMON..EXTENDED
    };
    let files = Iterator::chain(0..COMMON, more).filter_map(|nth| {
        let counter = COUNTERS.get(nth as usize)?;
        Some(Behaviour::numbered(Name::text(counter.name), show, nth))
    });
    PortGroup::new(Some(c"counters"), files)
}

fn show(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let counter = COUNTERS.get(of.index as usize).ok_or(EINVAL)?;
    let answer = (of.device).driver_perf_get(of.port, counter.attribute, true, sleep)?;
    let word = u64::from_be_bytes(answer.bytes(usize::from(counter.at / 8)));
    let shifted = word << (counter.at % 8);
    let value = shifted.wrapping_shr(64u32.wrapping_sub(counter.width.into()));
    Ok(writeln!(text, "{value}")?)
}
