// SPDX-License-Identifier: GPL-2.0

//! Notification of net device events.
//!
//! C header: `include/linux/netdevice.h`.

use super::{
    chain::{Chain, Change, NotifierBlock},
    device::NetDevice,
};
use crate::{bindings, context::MaySleep};
use core::marker::PhantomData;
use kernel::ffi::{c_ulong, c_void};

/// An event. Other events are not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The device was registered.
    Register,
    /// The device is being unregistered: references must be dropped.
    Unregister,
    /// It is up.
    Up,
    /// It is about to go down.
    GoingDown,
    /// It is down.
    Down,
    /// Its flags or carrier have changed.
    Change,
    /// Its MTU has changed.
    ChangeMtu,
    /// Its hardware address has changed.
    ChangeAddress,
    /// Its name has changed.
    ChangeName,
    /// Its features have changed.
    ChangeFeatures,
    /// It has gained or lost an upper device: see [`Listener::upper_changed`].
    ChangeUpper,
    /// It is a bond whose active port has changed.
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

/// A listener for net device events.
pub trait Listener: Send + Sync + 'static {
    /// Handles an event. Process context, with RTNL held: it must not take RTNL, nor wait for a holder of RTNL.
    fn event(&self, device: &NetDevice, event: Event, may_sleep: &MaySleep);

    /// `upper` has become an upper device (`linked`), or has ceased to be one. Called before [`Event::ChangeUpper`], in
    /// the same context.
    fn upper_changed(
        &self,
        _device: &NetDevice,
        _upper: &NetDevice,
        _linked: bool,
        _may_sleep: &MaySleep,
    ) {
    }
}

/// The notifier chain of net devices.
pub struct Devices<T>(PhantomData<T>);

// SAFETY: The two functions change the chain of net devices, and unregistering waits for calls. The chain calls in process
// context, with a device that is valid during the call; an event about an upper device has that device too.
unsafe impl<T: Listener> Chain for Devices<T> {
    type Listener = T;
    const REGISTER: Change = bindings::register_netdevice_notifier;
    const UNREGISTER: Change = bindings::unregister_netdevice_notifier;

    unsafe fn notify(listener: &T, event: c_ulong, info: *mut c_void) {
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

/// A listener for all net devices of all namespaces. Dropping it unregisters it, and may sleep.
///
/// Registering and dropping take RTNL. Existing devices are reported as registered and, if they are, as up; when the
/// registration is dropped, all devices are reported as down and unregistered, though they continue to exist.
pub type Registration<T> = NotifierBlock<Devices<T>>;
