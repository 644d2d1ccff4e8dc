// SPDX-License-Identifier: GPL-2.0

//! Net devices created by a driver (`alloc_rdma_netdev`), for IPoIB and the virtual NIC of Omni-Path.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, entry::ErrPtr, export::export};
use rdma::{
    core::driver::netdev::{
        NetdevDevice, NetdevFor, NetdevKind, NetdevPort, NetdevSetup, NewNetdev,
    },
    MaySleep,
};

/// Allocates a net device for a port with the driver's parameters. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `ENOMEM`, and errors of the driver.
#[export]
fn rdma_alloc_netdev(
    device: NetdevDevice<'_>,
    port: NetdevPort<'_>,
    kind: NetdevKind<'_>,
    name: &CStr,
    name_assign_type: u8,
    setup: NetdevSetup<'_>,
    sleep: &MaySleep,
) -> ErrPtr<c::net_device> {
    let what = NetdevFor { device, port, kind };
    let ndev = what.alloc(name, name_assign_type, setup, sleep);
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
    device: NetdevDevice<'_>,
    port: NetdevPort<'_>,
    kind: NetdevKind<'_>,
    _name: &CStr,
    _name_assign_type: u8,
    _setup: NetdevSetup<'_>,
    netdev: NewNetdev<'_>,
    sleep: &MaySleep,
) -> Result {
    NetdevFor { device, port, kind }.initialize(netdev, sleep)
}
