// SPDX-License-Identifier: GPL-2.0

//! What of a device is told to user space as it happens: `rdma monitor`.

use rdma::{view::Device, MaySleep};

use crate::netlink::monitor;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
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

/// Who tells user space: the groups of netlink add a line here.
const TELLERS: &[fn(&Device, Notice, &MaySleep)] = &[monitor::tell];

/// Tells user space.
pub(crate) fn tell(device: &Device, notice: Notice, sleep: &MaySleep) {
    for teller in TELLERS {
        teller(device, notice, sleep);
    }
}
