// SPDX-License-Identifier: GPL-2.0

//! Moving devices between network namespaces: on request, and when their namespace is deleted.
//!
//! C header: `include/rdma/ib_verbs.h` (`rdma_dev_net`).

use kernel::{
    prelude::*,
    str::{CStr, CString},
    sync::Arc,
};
use kernel_ext::{
    error::EOPNOTSUPP,
    net::ns::{impl_has_pernet_slot, NetNamespace, NetRef, PerNamespace, PernetRegistration},
};
use rdma::{
    core::{device::Registered, Device, DeviceMemory},
    MaySleep,
};

use super::compat;
use crate::{
    device,
    registry::{self, netns, printk, DeviceFilter, Names},
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
            let _ = change(&device, this.cookie, &initial, &Move::Home, sleep);
        }
    }
}

/// How a device is moved.
enum Move<'a> {
    /// Its own namespace is deleted. Where another device has its name, it gets another one.
    Home,
    /// On request, from this namespace, with a new name or with its own.
    Asked(&'a NetRef, Option<&'a CStr>),
}

impl Move<'_> {
    /// The name of the device in the other namespace.
    ///
    /// # Errors
    ///
    /// `EEXIST` where another device has it, `ENFILE`, `ENOMEM`.
    fn name(&self, names: &Names, device: &Device, to: &NetRef) -> Result<CString> {
        let own = device.name();
        match self {
            Self::Home => names.free_in(to.cookie(), device),
            Self::Asked(_, name) => {
                let name = name.unwrap_or(&own);
                if names.is_taken(name, device, to.cookie()) {
                    return Err(EEXIST);
                }
                Ok(CString::try_from(name)?)
            }
        }
    }

    /// The namespace that a device returns to that cannot be moved.
    fn back(&self) -> Option<&NetRef> {
        match self {
            Self::Home => None,
            Self::Asked(from, _) => Some(from),
        }
    }
}

/// Moves a device from the namespace with this cookie to another: disables it and enables it there.
///
/// # Errors
///
/// `ENODEV` for a device that is not registered or not in that namespace; `EEXIST` for a name that another device has in the new one;
/// `ENOMEM` if its name cannot be published there. The device then stays in its former namespace, if possible. Clients whose `add`
/// fails are logged.
fn change(
    device: &DeviceMemory,
    from: u64,
    to: &NetRef,
    how: &Move<'_>,
    sleep: &MaySleep,
) -> Result {
    let changed = device::with_registered(device, |device| {
        if device.with_namespace(NetNamespace::cookie) != from {
            return Err(ENODEV);
        }
        // What is refused leaves the device enabled.
        how.name(&Names::lock(sleep), device, to)?;
        device::in_model(device, |entry| entry.announce_leaving(sleep));
        device::disable(device, sleep);
        let moved = enter(device, to, how, sleep);
        let (registered, begins) = device::begin_registered(device).ok_or(EINVAL)?;
        if let Err(error) = device::enable(&registered, begins, sleep) {
            let error = error.to_errno();
            printk::warn(
                device,
                fmt!("not enabled after a change of namespace: {error}\n"),
            );
        }
        device::in_model(device, |entry| entry.announce(sleep));
        moved
    });
    changed.unwrap_or(Err(ENODEV))
}

/// Puts a disabled device into another namespace.
fn enter(device: &Device, to: &NetRef, how: &Move<'_>, sleep: &MaySleep) -> Result {
    let names = Names::lock(sleep);
    let name = how.name(&names, device, to)?;
    device::in_model(device, |entry| {
        entry.move_to((to, &name), how.back(), sleep)
    })
    .ok_or(ENODEV)?
}

/// Moves a registered device to another namespace, on request from `from`, and renames it, if there is a new name; drops the reference.
///
/// # Errors
///
/// `EOPNOTSUPP` in shared mode, and for a device without disassociation of user contexts; those of [`change`].
pub(crate) fn move_to(
    device: Registered,
    from: &NetNamespace,
    (to, name): (&NetRef, Option<&CStr>),
    sleep: &MaySleep,
) -> Result {
    if device.is_in(to) {
        return name.map_or(Ok(()), |name| device::rename(&device, name, sleep));
    }
    if netns::is_shared() || !device.has_disassociate() {
        return Err(EOPNOTSUPP);
    }
    let from = from.get().ok_or(ENODEV)?;
    let held = device.hold();
    drop(device);
    change(&held, from.cookie(), to, &Move::Asked(&from, name), sleep)
}
