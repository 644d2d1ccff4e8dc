// SPDX-License-Identifier: GPL-2.0

//! The attribute files of a port.
//!
//! C header: `include/rdma/ib_sysfs.h`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    sysfs::{Name, Text},
};
use rdma::{
    abi::port::PortAttr,
    core::sysfs::{AttrContext, Behaviour, PortGroup, Show},
    MaySleep,
};

use crate::{registry::port, verbs::rate};

const FILES: [(&CStr, Show); 9] = [
    (c"state", state),
    (c"lid", lid),
    (c"lid_mask_count", lid_mask_count),
    (c"sm_lid", sm_lid),
    (c"sm_sl", sm_sl),
    (c"cap_mask", cap_mask),
    (c"rate", speed),
    (c"phys_state", phys_state),
    (c"link_layer", link_layer),
];

/// The attribute group of all ports.
pub(super) fn group() -> Result<PortGroup> {
    let files = FILES.map(|(name, show)| Behaviour::read(Name::text(name), show));
    PortGroup::new(None, files)
}

fn query(of: &AttrContext<'_>, sleep: &MaySleep) -> Result<PortAttr> {
    port::query(of.device, of.port, sleep)
}

fn state(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let state = query(of, sleep)?.state;
    Ok(writeln!(text, "{state}: {}", port::state_name(state))?)
}

fn lid(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    Ok(writeln!(text, "{:#x}", query(of, sleep)?.lid)?)
}

fn lid_mask_count(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    Ok(writeln!(text, "{}", query(of, sleep)?.lmc)?)
}

fn sm_lid(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    Ok(writeln!(text, "{:#x}", query(of, sleep)?.sm_lid)?)
}

fn sm_sl(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    Ok(writeln!(text, "{}", query(of, sleep)?.sm_sl)?)
}

fn cap_mask(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let flags = query(of, sleep)?.port_cap_flags;
    Ok(writeln!(text, "{flags:#010x}")?)
}

fn speed(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let speed = rate::Speed::of(&query(of, sleep)?);
    let lanes = speed.lanes.ok_or(EINVAL)?;
    let rate = speed.rate();
    let half = if rate % 10 == 0 { "" } else { ".5" };
    write!(text, "{}{half} Gb/sec ({lanes}X", rate / 10)?;
    text.append(speed.name.to_bytes());
    text.append(b")\n");
    Ok(())
}

fn phys_state(of: &AttrContext<'_>, text: &mut Text<'_>, sleep: &MaySleep) -> Result {
    let state = query(of, sleep)?.phys_state;
    let name = match u32::from(state) {
        bindings::IB_PORT_PHYS_STATE_SLEEP => "Sleep",
        bindings::IB_PORT_PHYS_STATE_POLLING => "Polling",
        bindings::IB_PORT_PHYS_STATE_DISABLED => "Disabled",
        bindings::IB_PORT_PHYS_STATE_PORT_CONFIGURATION_TRAINING => "PortConfigurationTraining",
        bindings::IB_PORT_PHYS_STATE_LINK_UP => "LinkUp",
        bindings::IB_PORT_PHYS_STATE_LINK_ERROR_RECOVERY => "LinkErrorRecovery",
        bindings::IB_PORT_PHYS_STATE_PHY_TEST => "Phy Test",
        _ => "<unknown>",
    };
    Ok(writeln!(text, "{state}: {name}")?)
}

fn link_layer(of: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    let name = match port::link_layer(of.device, of.port) {
        bindings::IB_LINK_LAYER_INFINIBAND => "InfiniBand",
        bindings::IB_LINK_LAYER_ETHERNET => "Ethernet",
        _ => "Unknown",
    };
    Ok(writeln!(text, "{name}")?)
}
