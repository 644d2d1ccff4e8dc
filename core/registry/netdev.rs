// SPDX-License-Identifier: GPL-2.0

//! The net device of a port: which one it is.

use kernel::{prelude::*, sync::aref::ARef};
use kernel_ext::{bindings, door::Out, export::export, net::device::NetDevice};
use rdma::{
    view::{Device, Registered},
    MaySleep,
};

use super::notify::{self, NotifyEvent};
use crate::{private::DeviceExt, registry};

/// The net device of a port, referenced: as the driver says, or as it was set. Any context.
pub(crate) fn of(device: &Device, port: u32) -> Option<ARef<NetDevice>> {
    let state = device.core_port(port)?;
    if device.has_get_netdev() {
        device.driver_get_netdev(port)
    } else {
        state.netdev.get()
    }
}

/// The port that has this net device.
pub(crate) fn port_of(device: &Device, ndev: &NetDevice) -> Option<u32> {
    let mut ports = device.ports();
    ports.find(|&port| of(device, port).is_some_and(|of| core::ptr::eq(&*of, ndev)))
}

/// Gives up the net devices of all ports.
pub(crate) fn forget_all(device: &Device) {
    for port in device.ports().map_while(|port| device.core_port(port)) {
        port.netdev.set(None);
    }
}

/// Gives a port its net device, or none. Before registration and after; process context.
///
/// # Errors
///
/// `EINVAL` for a port that is not there, `ENOMEM`.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn ib_device_set_netdev(
    ib_dev: &Device,
    ndev: Option<&NetDevice>,
    port: u32,
    sleep: &MaySleep,
) -> Result {
    if !ib_dev.is_port_valid(port) {
        return Err(EINVAL);
    }
    ib_dev.make_ports(sleep)?;
    let state = ib_dev.core_port(port).ok_or(EINVAL)?;
    if state.netdev.set(ndev) && registry::contains(ib_dev) {
        let what = match ndev {
            Some(_) => NotifyEvent::NetdevAttached(port),
            None => NotifyEvent::NetdevDetached(port),
        };
        notify::notify(ib_dev, what, sleep);
    }
    Ok(())
}

/// Returns the net device of a port, referenced; null for none. Any context.
#[export]
fn ib_device_get_netdev(ib_dev: &Device, port: u32) -> Option<ARef<NetDevice>> {
    of(ib_dev, port)
}

/// Returns the registered device that has a net device, and keeps it registered; null for none. Any context.
///
/// `driver_id` may be `RDMA_DRIVER_UNKNOWN`: any.
#[export]
fn ib_device_get_by_netdev(
    ndev: &NetDevice,
    driver_id: bindings::rdma_driver_id,
) -> *mut bindings::ib_device {
    registry::by_netdev(ndev, driver_id).map_or(core::ptr::null_mut(), Registered::into_raw)
}

/// Says which port has a net device.
///
/// # Errors
///
/// `ENOENT`.
#[export]
fn ib_query_netdev_port(ibdev: &Device, ndev: &NetDevice, port: Out<'_, u32>) -> Result {
    port.set(port_of(ibdev, ndev).ok_or(ENOENT)?);
    Ok(())
}
