// SPDX-License-Identifier: GPL-2.0

//! Port events that follow from events of a port's net device: port active, port error, netdev renamed.
//!
//! C header: `include/rdma/ib_verbs.h` (`enum ib_event_type`).

use kernel::prelude::*;
use kernel_ext::{
    bindings,
    export::export,
    net::{
        device::NetDevice,
        notifier::{self, Event, Listener},
    },
};
use rdma::{core::Device, MaySleep};

use super::dispatch;
use crate::registry::{
    self, event, netdev,
    notify::{self, NotifyEvent},
};

/// Keeps the netdevice notifier registered until it is dropped.
pub(crate) type Registration = Pin<KBox<notifier::Registration<NetdevEvents>>>;

/// The netdevice notifier.
pub(crate) struct NetdevEvents;

/// Registers the netdevice notifier.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    notifier::Registration::new(NetdevEvents, sleep)
}

impl Listener for NetdevEvents {
    fn event(&self, ndev: &NetDevice, event: Event, sleep: &MaySleep) {
        let raw = match event {
            Event::Up => bindings::NETDEV_UP,
            Event::Down => bindings::NETDEV_DOWN,
            Event::Change => bindings::NETDEV_CHANGE,
            Event::ChangeName => return renamed(ndev, sleep),
            _ => return,
        };
        link_changed(ndev, raw as usize, sleep);
    }
}

fn renamed(ndev: &NetDevice, sleep: &MaySleep) {
    let Some(device) = registry::by_netdev(ndev, bindings::RDMA_DRIVER_UNKNOWN) else {
        return;
    };
    if let Some(port) = netdev::port_of(&device, ndev) {
        notify::notify(&device, NotifyEvent::NetdevRenamed(port), sleep);
    }
}

/// Handles a link change of a net device.
///
/// Ports of a bond are left to drivers that support bonds.
fn link_changed(ndev: &NetDevice, event: usize, sleep: &MaySleep) {
    if rdma::core::port::is_lag(ndev) {
        return;
    }
    let Some(device) = registry::by_netdev(ndev, bindings::RDMA_DRIVER_UNKNOWN) else {
        return;
    };
    if device
        .driver_report_port_event(ndev, event, sleep)
        .is_none()
    {
        dispatch_port_state(&device, ndev, sleep);
    }
}

/// Dispatches a port event if the state of the net device's port has changed.
fn dispatch_port_state(device: &Device, ndev: &NetDevice, sleep: &MaySleep) {
    let Some(port) = netdev::port_of(device, ndev) else {
        return;
    };
    let state = rdma::core::port::netdev_port_state(ndev);
    if !device.port_state_changed(port, state, sleep) {
        return;
    }
    let kind = if state == bindings::IB_PORT_DOWN {
        bindings::IB_EVENT_PORT_ERR
    } else {
        bindings::IB_EVENT_PORT_ACTIVE
    };
    dispatch::dispatch(device, event::Event::of_port(kind, device, port));
}

/// Dispatches a port active or port error event, if the state of the net device's port has changed. Process context.
#[export]
fn ib_dispatch_port_state_event(ibdev: &Device, ndev: &NetDevice, sleep: &MaySleep) {
    dispatch_port_state(ibdev, ndev, sleep);
}
