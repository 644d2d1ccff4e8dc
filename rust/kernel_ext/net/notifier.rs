// SPDX-License-Identifier: GPL-2.0

//! Hearing of what happens to network devices.
//!
//! C header: `include/linux/netdevice.h`.

use super::{
    chain::{Chain, Change, Member},
    device::NetDevice,
};
use crate::{bindings, context::MaySleep};
use core::marker::PhantomData;
use kernel::ffi::{c_ulong, c_void};

/// What happened to a device. Others than these are not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is there now.
    Register,
    /// It is about to go: whoever has a reference lets go of it.
    Unregister,
    /// It was set up.
    Up,
    /// It is about to be set down.
    GoingDown,
    /// It was set down.
    Down,
    /// Its flags or its carrier changed.
    Change,
    /// Its MTU changed.
    ChangeMtu,
    /// Its hardware address changed.
    ChangeAddress,
    /// Its name changed.
    ChangeName,
    /// What it can do changed.
    ChangeFeatures,
    /// Another device was put on it, or taken off: see [`Listener::upper_changed`].
    ChangeUpper,
    /// It is a bond, and another port of it is the active one now.
    BondFailover,
}

impl Event {
    fn from_raw(event: c_ulong) -> Option<Self> {
        Some(match event as bindings::netdev_cmd {
            bindings::NETDEV_REGISTER => Self::Register,
            bindings::NETDEV_UNREGISTER => Self::Unregister,
            bindings::NETDEV_UP => Self::Up,
            bindings::NETDEV_GOING_DOWN => Self::GoingDown,
            bindings::NETDEV_DOWN => Self::Down,
            bindings::NETDEV_CHANGE => Self::Change,
            bindings::NETDEV_CHANGEMTU => Self::ChangeMtu,
            bindings::NETDEV_CHANGEADDR => Self::ChangeAddress,
            bindings::NETDEV_CHANGENAME => Self::ChangeName,
            bindings::NETDEV_FEAT_CHANGE => Self::ChangeFeatures,
            bindings::NETDEV_CHANGEUPPER => Self::ChangeUpper,
            bindings::NETDEV_BONDING_FAILOVER => Self::BondFailover,
            _ => return None,
        })
    }
}

/// What hears of devices' events.
pub trait Listener: Send + Sync + 'static {
    /// Something happened to a device. Process context, with RTNL held: it must not take RTNL, nor wait for who does.
    fn event(&self, device: &NetDevice, event: Event, may_sleep: &MaySleep);

    /// `upper` was put on a device (`linked`), or taken off it. Called before [`Event::ChangeUpper`] is told, in the same
    /// context.
    fn upper_changed(
        &self,
        _device: &NetDevice,
        _upper: &NetDevice,
        _linked: bool,
        _may_sleep: &MaySleep,
    ) {
    }
}

/// The chain of the events of network devices.
pub struct Devices<T>(PhantomData<T>);

// SAFETY: These two change that chain, and wait for calls; it calls in process context, with a device that is there during
// the call; a change of what stands on it comes with that device.
unsafe impl<T: Listener> Chain for Devices<T> {
    type Listener = T;
    const JOIN: Change = bindings::register_netdevice_notifier;
    const LEAVE: Change = bindings::unregister_netdevice_notifier;

    unsafe fn tell(listener: &T, event: c_ulong, info: *mut c_void) {
        let Some(event) = Event::from_raw(event) else {
            return;
        };
        // SAFETY: By the safety requirements, in process context.
        unsafe {
            let may_sleep = &MaySleep::assume();
            let device =
                NetDevice::from_raw(bindings::netdev_notifier_info_to_dev(info.cast()).cast());
            if event == Event::ChangeUpper {
                let upper = NetDevice::from_raw(bindings::netdev_changeupper_dev(info.cast()));
                let linked = bindings::netdev_changeupper_linking(info.cast());
                listener.upper_changed(device, upper, linked, may_sleep);
            }
            listener.event(device, event, may_sleep);
        }
    }
}

/// A listener that hears events of the devices of all namespaces. Dropping it ends that, and may sleep.
///
/// Registering and dropping take RTNL. Devices that are there already are told as registered, and as up if they are; when
/// the registration is dropped, all devices are told as down and as unregistered, though they stay.
pub type Registration<T> = Member<Devices<T>>;
