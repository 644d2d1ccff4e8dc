// SPDX-License-Identifier: GPL-2.0

//! What of a device is told to user space as it happens: `rdma monitor`.

use kernel::sync::SetOnce;
use rdma::{view::Device, MaySleep};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyEvent {
    /// The device is registered.
    Registered,
    /// The device is unregistered.
    Unregistered,
    /// The device has a new name.
    Renamed,
    /// A port has got a net device.
    NetdevAttached(u32),
    /// A port has lost its net device.
    NetdevDetached(u32),
    /// A port's net device has a new name.
    NetdevRenamed(u32),
}

/// Tells user space, in process context.
pub(crate) type Notifier = fn(&Device, NotifyEvent, &MaySleep);

/// Who tells user space.
static NOTIFIER: SetOnce<Notifier> = SetOnce::new();

/// Says who tells user space. The module's initialisation calls it, once.
pub(crate) fn init(notifier: Notifier) {
    NOTIFIER.populate(notifier);
}

/// Tells user space.
pub(crate) fn notify(device: &Device, event: NotifyEvent, sleep: &MaySleep) {
    if let Some(notifier) = NOTIFIER.as_ref() {
        notifier(device, event, sleep);
    }
}
