// SPDX-License-Identifier: GPL-2.0

//! Netlink notifications about a device, `enum rdma_nl_notify_event_type`: `rdma monitor`.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::sync::SetOnce;
use rdma::{core::Device, MaySleep};

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyEvent {
    /// The device was registered.
    Registered,
    /// The device was unregistered.
    Unregistered,
    /// The device was renamed.
    Renamed,
    /// A port has a new net device.
    NetdevAttached(u32),
    /// A port has no net device any more.
    NetdevDetached(u32),
    /// A port's net device was renamed.
    NetdevRenamed(u32),
}

/// Sends a notification, in process context.
pub(crate) type Notifier = fn(&Device, NotifyEvent, &MaySleep);

/// The sender of notifications, a level above.
static NOTIFIER: SetOnce<Notifier> = SetOnce::new();

/// Sets the sender of notifications. Called once when the module is loaded.
pub(crate) fn init(notifier: Notifier) {
    NOTIFIER.populate(notifier);
}

/// Sends a notification.
pub(crate) fn notify(device: &Device, event: NotifyEvent, sleep: &MaySleep) {
    if let Some(notifier) = NOTIFIER.as_ref() {
        notifier(device, event, sleep);
    }
}
