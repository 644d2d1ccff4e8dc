// SPDX-License-Identifier: GPL-2.0

//! Hearing of what happens to network devices.
//!
//! C header: `include/linux/netdevice.h`.

use super::device::NetDevice;
use crate::{bindings, context::MaySleep};
use core::pin::Pin;
use kernel::{
    error::to_result,
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    types::Opaque,
};

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

/// A listener that hears events of the devices of all namespaces. Dropping it ends that, and may sleep.
///
/// Registering and dropping take RTNL. Devices that are there already are told as registered, and as up if they are; when
/// the registration is dropped, all devices are told as down and as unregistered, though they stay.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Listener> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    listener: T,
}

// SAFETY: The registration may be dropped on any thread.
unsafe impl<T: Listener> Send for Registration<T> {}
// SAFETY: A shared reference gives the listener alone, which is `Sync`.
unsafe impl<T: Listener> Sync for Registration<T> {}

impl<T: Listener> Registration<T> {
    /// Registers a listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(listener: T, _may_sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        KBox::try_pin_init(
            try_pin_init!(Self {
                listener,
                block <- Opaque::try_ffi_init(|slot: *mut bindings::notifier_block| {
                    // SAFETY: `slot` is valid for writes, and pinned until `drop` unregisters it; the listener, which is
                    // set already, lies behind it.
                    unsafe {
                        slot.write(bindings::notifier_block {
                            notifier_call: Some(Self::call),
                            ..pin_init::zeroed()
                        });
                        to_result(bindings::register_netdevice_notifier(slot))
                    }
                }),
            }? Error),
            GFP_KERNEL,
        )
    }

    /// Returns the listener.
    pub fn listener(&self) -> &T {
        &self.listener
    }

    /// # Safety
    ///
    /// The kernel calls it, with the block that `new` registered.
    unsafe extern "C" fn call(
        block: *mut bindings::notifier_block,
        event: c_ulong,
        info: *mut c_void,
    ) -> c_int {
        let Some(event) = Event::from_raw(event) else {
            return bindings::NOTIFY_DONE as c_int;
        };
        // SAFETY: The kernel calls with the block that was registered, which is a field of `Self`.
        let this = unsafe { kernel::container_of!(Opaque::cast_from(block), Self, block) };
        // SAFETY: The listener lives until the block is unregistered, which waits for calls. The kernel calls in process
        // context, with a device that is there during the call; a change of what stands on it comes with that device.
        unsafe {
            let may_sleep = &MaySleep::assume();
            let listener = &(*this).listener;
            let device =
                NetDevice::from_raw(bindings::netdev_notifier_info_to_dev(info.cast()).cast());
            if event == Event::ChangeUpper {
                let upper = NetDevice::from_raw(bindings::netdev_changeupper_dev(info.cast()));
                let linked = bindings::netdev_changeupper_linking(info.cast());
                listener.upper_changed(device, upper, linked, may_sleep);
            }
            listener.event(device, event, may_sleep);
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<T: Listener> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `new` registered the block.
        unsafe { bindings::unregister_netdevice_notifier(self.block.get()) };
    }
}
