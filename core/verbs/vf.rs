// SPDX-License-Identifier: GPL-2.0

//! Virtual functions, as `ip link` sets them and asks for them. Process context.
//!
//! # Errors
//!
//! `EOPNOTSUPP` where the device does not know of virtual functions, and what the driver answers.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, export::export};
use rdma::core::Device;

/// Sets the state of a virtual function's link.
#[export]
fn ib_set_vf_link_state(device: &Device, vf: c_int, port: u32, state: c_int) -> Result {
    device.driver_set_vf_link_state(vf, port, state)
}

/// Asks what a virtual function is like.
#[export]
fn ib_get_vf_config(device: &Device, vf: c_int, port: u32, info: &mut c::ifla_vf_info) -> Result {
    device.driver_get_vf_config(vf, port, info)
}

/// Asks for what a virtual function has counted.
#[export]
fn ib_get_vf_stats(device: &Device, vf: c_int, port: u32, stats: &mut c::ifla_vf_stats) -> Result {
    device.driver_get_vf_stats(vf, port, stats)
}

/// Sets a GUID of a virtual function.
#[export]
fn ib_set_vf_guid(device: &Device, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
    device.driver_set_vf_guid(vf, port, guid, kind)
}

/// Asks for the GUIDs of a virtual function.
#[export]
fn ib_get_vf_guid(
    device: &Device,
    vf: c_int,
    port: u32,
    node_guid: &mut c::ifla_vf_guid,
    port_guid: &mut c::ifla_vf_guid,
) -> Result {
    device.driver_get_vf_guid(vf, port, node_guid, port_guid)
}
