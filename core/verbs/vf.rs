// SPDX-License-Identifier: GPL-2.0

//! Virtual functions (SR-IOV), for `ip link`. Process context.
//!
//! # Errors
//!
//! `EOPNOTSUPP` without driver support, and errors of the driver.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_set_vf_link_state`).

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, export::export};
use rdma::core::Device;

/// Sets the link state of a virtual function.
#[export]
fn ib_set_vf_link_state(device: &Device, vf: c_int, port: u32, state: c_int) -> Result {
    device.driver_set_vf_link_state(vf, port, state)
}

/// Queries the configuration of a virtual function.
#[export]
fn ib_get_vf_config(device: &Device, vf: c_int, port: u32, info: &mut c::ifla_vf_info) -> Result {
    device.driver_get_vf_config(vf, port, info)
}

/// Queries the statistics of a virtual function.
#[export]
fn ib_get_vf_stats(device: &Device, vf: c_int, port: u32, stats: &mut c::ifla_vf_stats) -> Result {
    device.driver_get_vf_stats(vf, port, stats)
}

/// Sets a GUID of a virtual function.
#[export]
fn ib_set_vf_guid(device: &Device, vf: c_int, port: u32, guid: u64, kind: c_int) -> Result {
    device.driver_set_vf_guid(vf, port, guid, kind)
}

/// Queries the GUIDs of a virtual function.
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
