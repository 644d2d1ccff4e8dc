// SPDX-License-Identifier: GPL-2.0

//! Moving devices between network namespaces: on request, and when their namespace is deleted.
//!
//! C header: `include/rdma/ib_verbs.h` (`rdma_dev_net`).

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    error::EOPNOTSUPP,
    net::ns::{impl_has_pernet_slot, NetNamespace, NetRef, PerNamespace, PernetRegistration},
};
use rdma::{
    core::{device::Registered, DeviceMemory},
    MaySleep,
};

use super::compat;
use crate::{
    device,
    registry::{self, netns, printk, DeviceFilter},
};

/// Keeps the pernet operations registered until it is dropped.
pub(crate) type Registration = PernetRegistration<Namespace>;

/// Registers the pernet operations.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    PernetRegistration::new(sleep)
}

/// Data of the core in a network namespace.
pub(crate) struct Namespace {
    cookie: u64,
}

impl_has_pernet_slot! { impl HasPernetSlot for Namespace }

impl PerNamespace for Namespace {
    fn new(net: &NetNamespace, sleep: &MaySleep) -> Result<Arc<Self>> {
        let cookie = net.cookie();
        let this = Arc::new(Self { cookie }, GFP_KERNEL)?;
        if net == NetNamespace::init() {
            return Ok(this);
        }
        compat::enter(net, sleep)?;
        Ok(this)
    }

    fn exit(this: Arc<Self>, sleep: &MaySleep) {
        compat::leave(this.cookie, sleep);
        let Some(initial) = NetNamespace::init().get() else {
            return;
        };
        if this.cookie == initial.cookie() {
            return;
        }
        // The lock of a device that is already being moved makes this wait for the move.
        for device in registry::devices(DeviceFilter::All) {
            // `ENODEV` for a device that is not in the namespace.
            let _ = change(&device, this.cookie, &initial, None, sleep);
        }
    }
}

/// Moves a device from the namespace with this cookie to another: disables it and enables it there.
///
/// # Errors
///
/// `ENODEV` for a device that is not registered or not in that namespace; `ENOMEM` if its name cannot be published in the new
/// one. The device is then moved back to `back`, its former namespace, if possible. Clients whose `add` fails are logged.
fn change(
    device: &DeviceMemory,
    from: u64,
    to: &NetRef,
    back: Option<&NetRef>,
    sleep: &MaySleep,
) -> Result {
    let changed = device::with_registered(device, |device| {
        if device.with_namespace(NetNamespace::cookie) != from {
            return Err(ENODEV);
        }
        device::in_model(device, |entry| entry.announce_leaving(sleep));
        device::disable(device, sleep);
        let moved = device::in_model(device, |entry| entry.move_to(to, back, sleep));
        let (registered, begins) = device::begin_registered(device).ok_or(EINVAL)?;
        if let Err(error) = device::enable(&registered, begins, sleep) {
            let error = error.to_errno();
            printk::warn(
                device,
                fmt!("not enabled after a change of namespace: {error}\n"),
            );
        }
        device::in_model(device, |entry| entry.announce(sleep));
        moved.unwrap_or(Err(ENODEV))
    });
    changed.unwrap_or(Err(ENODEV))
}

/// Moves a registered device to another namespace, on request from `from`; drops the reference.
///
/// # Errors
///
/// `EOPNOTSUPP` in shared mode, and for a device without disassociation of user contexts; those of [`change`].
pub(crate) fn move_to(
    device: Registered,
    from: &NetNamespace,
    to: &NetRef,
    sleep: &MaySleep,
) -> Result {
    if netns::is_shared() || !device.has_disassociate() {
        return Err(EOPNOTSUPP);
    }
    let from = from.get().ok_or(ENODEV)?;
    let held = device.hold();
    drop(device);
    change(&held, from.cookie(), to, Some(&from), sleep)
}
