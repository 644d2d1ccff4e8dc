// SPDX-License-Identifier: GPL-2.0

//! What of a device is told to user space as it happens: `rdma monitor`.

use kernel::sync::SetOnce;
use rdma::{core::Device, MaySleep};

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

/// Tells user space, in process context.
pub(crate) type Teller = fn(&Device, Notice, &MaySleep);

/// Who tells user space.
static TELLER: SetOnce<Teller> = SetOnce::new();

/// Says who tells user space. The module's initialisation calls it, once.
pub(crate) fn init(teller: Teller) {
    TELLER.populate(teller);
}

/// Tells user space.
pub(crate) fn tell(device: &Device, notice: Notice, sleep: &MaySleep) {
    if let Some(teller) = TELLER.as_ref() {
        teller(device, notice, sleep);
    }
}
