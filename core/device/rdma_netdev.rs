// SPDX-License-Identifier: GPL-2.0

//! Net devices created by a driver (`alloc_rdma_netdev`), for IPoIB and the virtual NIC of Omni-Path.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, entry::ErrPtr, export::export, net::device::NetDevice};
use rdma::{
    core::{driver::netdev::NetdevSetup, Device},
    MaySleep,
};

/// Allocates a net device for a port with the driver's parameters. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `ENOMEM`, and errors of the driver.
#[export]
fn rdma_alloc_netdev(
    device: &Device,
    port_num: u32,
    kind: c::rdma_netdev_t,
    name: &CStr,
    name_assign_type: u8,
    setup: NetdevSetup,
    sleep: &MaySleep,
) -> ErrPtr<c::net_device> {
    let params = device.driver_netdev_params(port_num, kind, sleep);
    let ndev = params.and_then(|params| params.alloc(name, name_assign_type, setup));
    ErrPtr(ndev.map(|ndev| ndev.as_ptr()))
}

/// Lets the driver initialise a net device of `rdma_alloc_netdev`. Process context.
///
/// # Errors
///
/// As for `rdma_alloc_netdev`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_init_netdev(
    device: &Device,
    port_num: u32,
    kind: c::rdma_netdev_t,
    _name: &CStr,
    _name_assign_type: u8,
    _setup: NetdevSetup,
    netdev: &NetDevice,
    sleep: &MaySleep,
) -> Result {
    let params = device.driver_netdev_params(port_num, kind, sleep)?;
    params.initialize(netdev)
}
