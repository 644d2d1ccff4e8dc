// SPDX-License-Identifier: GPL-2.0

//! Queries of ports and devices: attributes, P_Keys, link layer, speed, firmware version.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_query_port`, `ib_query_pkey`).

use kernel::prelude::*;
use kernel_ext::{bindings, entry::Out, error::EOPNOTSUPP, export::export};
use rdma::{
    abi::port::PortAttr,
    core::{driver::device::FW_VERSION_MAX, port::fill_from_netdev, Device},
    MaySleep,
};

use super::netdev;
use crate::private::DeviceExt;

/// The attributes of a port.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENODEV` for an iWARP port without a net device, and errors of the driver.
pub(crate) fn query(device: &Device, port: u32, sleep: &MaySleep) -> Result<PortAttr> {
    if !device.is_port_valid(port) {
        return Err(EINVAL);
    }
    let mut attr: PortAttr = pin_init::zeroed();
    if device.is_iwarp(port) {
        let ndev = netdev::of(device, port).ok_or(ENODEV)?;
        fill_from_netdev(&ndev, &mut attr);
    }
    device.driver_query_port(port, &mut attr, sleep)?;
    if attr.subnet_prefix == 0 && link_layer(device, port) == bindings::IB_LINK_LAYER_INFINIBAND {
        // InfiniBand drivers leave it to the core, which reads it from the GID table.
        let state = device.core_port(port);
        attr.subnet_prefix = state.map_or(0, |state| {
            state.cache.known.with(|known| known.subnet_prefix)
        });
    }
    Ok(attr)
}

/// An entry of a port's P_Key table, from the driver.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `EOPNOTSUPP` where the device has no P_Keys, and errors of the driver.
pub(crate) fn query_pkey(device: &Device, port: u32, index: u16, sleep: &MaySleep) -> Result<u16> {
    if !device.is_port_valid(port) {
        return Err(EINVAL);
    }
    device.driver_query_pkey(port, index, sleep)
}

/// The link layer of a port, `enum rdma_link_layer`. Any context.
pub(crate) fn link_layer(device: &Device, port: u32) -> u32 {
    device
        .driver_link_layer(port)
        .unwrap_or_else(|| match device.node_type() {
            bindings::RDMA_NODE_USNIC
            | bindings::RDMA_NODE_USNIC_UDP
            | bindings::RDMA_NODE_RNIC
            | bindings::RDMA_NODE_UNSPECIFIED => bindings::IB_LINK_LAYER_ETHERNET,
            _ => bindings::IB_LINK_LAYER_INFINIBAND,
        })
}

/// The name of a port state in messages and sysfs.
pub(crate) fn state_name(state: u32) -> &'static str {
    match state {
        bindings::IB_PORT_NOP => "NOP",
        bindings::IB_PORT_DOWN => "DOWN",
        bindings::IB_PORT_INIT => "INIT",
        bindings::IB_PORT_ARMED => "ARMED",
        bindings::IB_PORT_ACTIVE => "ACTIVE",
        bindings::IB_PORT_ACTIVE_DEFER => "ACTIVE_DEFER",
        _ => "UNKNOWN",
    }
}

/// The full membership bit of a P_Key.
///
/// Reference: InfiniBand Architecture Specification, volume 1, 10.9.1.1.
const FULL_MEMBER: u16 = 0x8000;

/// The index of a P_Key in the driver's table: of a full member, else of the first limited one.
fn find_pkey(device: &Device, port: u32, pkey: u16, sleep: &MaySleep) -> Result<u16> {
    let length = device.immutable(port).ok_or(EINVAL)?.pkey_tbl_len;
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    let mut limited = None;
    for index in 0..length {
        let entry = query_pkey(device, port, index, sleep)?;
        if (entry ^ pkey) & !FULL_MEMBER != 0 {
            continue;
        }
        if entry & FULL_MEMBER != 0 {
            return Ok(index);
        }
        limited = limited.or(Some(index));
    }
    limited.ok_or(ENOENT)
}

/// Speed of a lane and width of a link, in the units of InfiniBand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    speed: u32,
    width: u32,
}

/// The rate of net devices with an unknown number of lanes, by maximum speed in Mbit/s.
const BY_SPEED: [(u32, u32, u32); 8] = [
    (1_000, bindings::IB_SPEED_SDR, bindings::IB_WIDTH_1X),
    (10_000, bindings::IB_SPEED_FDR10, bindings::IB_WIDTH_1X),
    (20_000, bindings::IB_SPEED_DDR, bindings::IB_WIDTH_4X),
    (25_000, bindings::IB_SPEED_EDR, bindings::IB_WIDTH_1X),
    (40_000, bindings::IB_SPEED_FDR10, bindings::IB_WIDTH_4X),
    (50_000, bindings::IB_SPEED_EDR, bindings::IB_WIDTH_2X),
    (100_000, bindings::IB_SPEED_EDR, bindings::IB_WIDTH_4X),
    (200_000, bindings::IB_SPEED_HDR, bindings::IB_WIDTH_4X),
];

/// Width by the number of lanes.
const BY_LANES: [(u32, u32); 5] = [
    (1, bindings::IB_WIDTH_1X),
    (2, bindings::IB_WIDTH_2X),
    (4, bindings::IB_WIDTH_4X),
    (8, bindings::IB_WIDTH_8X),
    (12, bindings::IB_WIDTH_12X),
];

/// Speed by the rate of a lane, in Mbit/s.
const BY_LANE_SPEED: [(u32, u32); 7] = [
    (2_500, bindings::IB_SPEED_SDR),
    (5_000, bindings::IB_SPEED_DDR),
    (10_000, bindings::IB_SPEED_FDR10),
    (14_000, bindings::IB_SPEED_FDR),
    (25_000, bindings::IB_SPEED_EDR),
    (50_000, bindings::IB_SPEED_HDR),
    (100_000, bindings::IB_SPEED_NDR),
];

fn look_up(table: &[(u32, u32)], key: u32, default: u32) -> u32 {
    let found = table.iter().find(|&&(at, _)| at == key);
    found.map_or(default, |&(_, value)| value)
}

/// The rate of a net device of `speed` Mbit/s with `lanes` lanes; 0: unknown.
fn rate(speed: u32, lanes: u32) -> Rate {
    if let Some(lane_speed) = speed.checked_div(lanes) {
        return Rate {
            speed: look_up(&BY_LANE_SPEED, lane_speed, bindings::IB_SPEED_SDR),
            width: look_up(&BY_LANES, lanes, bindings::IB_WIDTH_1X),
        };
    }
    let found = BY_SPEED.iter().find(|&&(up_to, ..)| speed <= up_to);
    let (speed, width) = found.map_or(
        (bindings::IB_SPEED_NDR, bindings::IB_WIDTH_4X),
        |&(_, speed, width)| (speed, width),
    );
    Rate { speed, width }
}

/// Speed of a net device with unknown speed, in Mbit/s.
const DEFAULT_SPEED: u32 = 1_000;

fn eth_rate(device: &Device, port: u32, sleep: &MaySleep) -> Result<Rate> {
    if link_layer(device, port) != bindings::IB_LINK_LAYER_ETHERNET {
        return Err(EINVAL);
    }
    let ndev = netdev::of(device, port).ok_or(ENODEV)?;
    let Some((speed, lanes)) = rdma::core::port::netdev_speed(&ndev, sleep)? else {
        return Ok(rate(DEFAULT_SPEED, 0));
    };
    Ok(rate(speed.unwrap_or(DEFAULT_SPEED), lanes))
}

/// Queries the attributes of a port. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENODEV` for an iWARP port without a net device, and errors of the driver.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_query_port(
    device: &Device,
    port_num: u32,
    port_attr: Out<'_, bindings::ib_port_attr>,
    sleep: &MaySleep,
) -> Result {
    port_attr.set(query(device, port_num, sleep)?);
    Ok(())
}

/// Returns the immutable data of a port; null for an invalid port. Any context.
#[export]
fn ib_port_immutable_read(
    dev: &Device,
    port: core::ffi::c_uint,
) -> *const bindings::ib_port_immutable {
    rdma::core::port::immutable_ptr(dev, port)
}

/// Returns the link layer of a port. Any context.
#[export]
fn rdma_port_get_link_layer(device: &Device, port_num: u32) -> bindings::rdma_link_layer {
    link_layer(device, port_num)
}

/// Queries an entry of a port's P_Key table. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `EOPNOTSUPP` where the device has no P_Keys, and errors of the driver.
#[export]
fn ib_query_pkey(
    device: &Device,
    port_num: u32,
    index: u16,
    pkey: Out<'_, u16>,
    sleep: &MaySleep,
) -> Result {
    pkey.set(query_pkey(device, port_num, index, sleep)?);
    Ok(())
}

/// Finds a P_Key in a port's table, regardless of the membership bit. Full membership is preferred. Process context.
///
/// # Errors
///
/// `ENOENT`, `EINVAL` for an invalid port, and errors of the driver.
#[export]
fn ib_find_pkey(
    device: &Device,
    port_num: u32,
    pkey: u16,
    index: Out<'_, u16>,
    sleep: &MaySleep,
) -> Result {
    index.set(find_pkey(device, port_num, pkey, sleep)?);
    Ok(())
}

/// Modifies attributes of a device. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_modify_device(
    device: &Device,
    device_modify_mask: i32,
    device_modify: &mut bindings::ib_device_modify,
    sleep: &MaySleep,
) -> Result {
    device.driver_modify_device(device_modify_mask, device_modify, sleep)
}

/// Modifies attributes of a port. Process context.
///
/// On a RoCE port, setting the CM capability succeeds without effect.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_modify_port(
    device: &Device,
    port_num: u32,
    port_modify_mask: i32,
    port_modify: &mut bindings::ib_port_modify,
    sleep: &MaySleep,
) -> Result {
    if !device.is_port_valid(port_num) {
        return Err(EINVAL);
    }
    let modified = device.driver_modify_port(port_num, port_modify_mask, port_modify, sleep);
    modified.unwrap_or_else(|| {
        let others = !bindings::IB_PORT_CM_SUP;
        let nothing_else = port_modify.set_port_cap_mask & others == 0
            || port_modify.clr_port_cap_mask & others == 0;
        if device.is_roce(port_num) && nothing_else {
            Ok(())
        } else {
            Err(EOPNOTSUPP)
        }
    })
}

/// Returns the speed of a port's net device as `enum ib_port_speed` and `enum ib_port_width`. Process context, without
/// RTNL.
///
/// # Errors
///
/// `EINVAL` for a port that is not Ethernet, `ENODEV` without a net device.
#[export]
fn ib_get_eth_speed(
    dev: &Device,
    port_num: u32,
    speed: Out<'_, u16>,
    width: Out<'_, u8>,
    sleep: &MaySleep,
) -> Result {
    let rate = eth_rate(dev, port_num, sleep)?;
    speed.set(rate.speed as u16);
    width.set(rate.width as u8);
    Ok(())
}

/// The firmware version of a device.
pub(crate) fn fw_text(device: &Device) -> [u8; FW_VERSION_MAX] {
    let mut text = [0; FW_VERSION_MAX];
    device.driver_fw_str(&mut text);
    // The driver may have left out the NUL.
    text[FW_VERSION_MAX - 1] = 0;
    text
}

/// Writes the firmware version of a device, at most `IB_FW_VERSION_NAME_MAX` bytes including the NUL. Empty where the
/// driver does not support it.
///
/// # Safety
///
/// The device is valid, and so are `IB_FW_VERSION_NAME_MAX` bytes at `text`.
#[export]
unsafe extern "C" fn ib_get_device_fw_str(
    device: *mut bindings::ib_device,
    text: *mut kernel::ffi::c_char,
) {
    // SAFETY: By the safety requirements.
    let device = unsafe { Device::from_raw(device) };
    let version = fw_text(device);
    let version = CStr::from_bytes_until_nul(&version).unwrap_or(c"");
    let version = version.to_bytes_with_nul();
    // SAFETY: By the safety requirements there is room: `fw_text` ends within it.
    unsafe { core::ptr::copy_nonoverlapping(version.as_ptr().cast(), text, version.len()) };
}

#[kernel::prelude::kunit_tests(ib_core_port_rates)]
mod tests {
    use super::*;

    /// The rate in Mbit/s.
    fn mbps_of(rate: Rate) -> Option<u32> {
        let lanes = BY_LANES.iter().find(|&&(_, width)| width == rate.width)?;
        let speed = BY_LANE_SPEED
            .iter()
            .find(|&&(_, speed)| speed == rate.speed)?;
        Some(lanes.0 * speed.0)
    }

    #[test]
    fn exact_rates_are_reported() {
        for (lanes, width) in BY_LANES {
            for (per_lane, speed) in BY_LANE_SPEED {
                let rate = rate(per_lane * lanes, lanes);
                assert_eq!(rate, Rate { speed, width });
                assert_eq!(mbps_of(rate), Some(per_lane * lanes));
            }
        }
    }

    #[test]
    fn unknown_lanes_are_estimated_by_speed() {
        for speed in [0, 10, 1_000] {
            assert_eq!(mbps_of(rate(speed, 0)), Some(2_500));
        }
        for speed in [10_000, 20_000, 25_000, 40_000, 50_000, 100_000, 200_000] {
            assert_eq!(mbps_of(rate(speed, 0)), Some(speed));
            // Or of the next faster one.
            assert!(mbps_of(rate(speed + 1, 0)) > Some(speed));
        }
        // Above all known speeds it is the fastest.
        assert_eq!(mbps_of(rate(u32::MAX, 0)), Some(400_000));
    }

    #[test]
    fn unknown_rates_are_the_slowest() {
        let slowest = Rate {
            speed: bindings::IB_SPEED_SDR,
            width: bindings::IB_WIDTH_1X,
        };
        assert_eq!(rate(1, u32::MAX), slowest);
        assert_eq!(rate(0, 3), slowest);
        assert_eq!(rate(u32::MAX, 7), slowest);
    }

    #[test]
    fn names_of_states() {
        assert!(state_name(bindings::IB_PORT_ACTIVE) == "ACTIVE");
        assert!(state_name(bindings::IB_PORT_ACTIVE_DEFER) == "ACTIVE_DEFER");
        assert!(state_name(u32::MAX) == "UNKNOWN");
    }
}
