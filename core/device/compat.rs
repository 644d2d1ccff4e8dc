// SPDX-License-Identifier: GPL-2.0

//! Compat devices: the sysfs entries of a device in other network namespaces.
//!
//! In shared mode, the default, all namespaces see all devices: a device is in the initial namespace, and each other
//! one has a compat device in its sysfs. In exclusive mode only the device's own namespace sees it; it can be moved,
//! and returns to the initial namespace when its own is deleted. The mode can be changed while no other namespace
//! exists.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NETS` | the namespaces except for the initial one; changes of the mode | process context | `CompatDevices::list` |
//! | `CompatDevices::list` | the compat devices of a device | process context | locks of the driver model, those of `sysfs` |
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_core_device`).

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel_ext::{net::ns::NetNamespace, static_lock::static_lock, static_vec::StaticVec};
use rdma::{
    core::{CoreDevice, Device, DeviceMemory},
    MaySleep,
};

use super::state::{Compat, CompatDevices};
use crate::{
    private::DeviceExt,
    registry::{self, netns, DeviceFilter},
    sysfs,
};

/// A network namespace, which exists as long as it is in the list.
struct Net(NonNull<NetNamespace>);

// SAFETY: Namespaces may be used from any thread.
unsafe impl Send for Net {}

impl Net {
    fn get(&self) -> &NetNamespace {
        // SAFETY: A namespace is removed from the list before it is freed.
        unsafe { self.0.as_ref() }
    }
}

static_lock! {
    static NETS: Mutex<StaticVec<Net>> = StaticVec::new();
}

/// Adds a namespace to the list, and adds compat devices of the registered devices to it.
///
/// # Errors
///
/// Those of adding a compat device; the namespace is then not in the list.
pub(super) fn enter(net: &NetNamespace, sleep: &MaySleep) -> Result {
    let cookie = net.cookie();
    NETS.lock().push(Net(NonNull::from(net)), GFP_KERNEL)?;
    show_all_in(cookie, sleep).inspect_err(|_| leave(cookie, sleep))
}

/// Adds compat devices of the registered devices to a namespace in the list.
fn show_all_in(cookie: u64, sleep: &MaySleep) -> Result {
    for device in registry::devices(DeviceFilter::Registered) {
        let nets = NETS.lock();
        if let Some(net) = nets.iter().find(|net| net.get().cookie() == cookie) {
            device.core().compat.show_in(&device, net.get(), sleep)?;
        }
    }
    Ok(())
}

/// Removes a namespace from the list, and its compat devices.
pub(super) fn leave(cookie: u64, sleep: &MaySleep) {
    NETS.lock().retain(|net| net.get().cookie() != cookie);
    for device in registry::devices(DeviceFilter::All) {
        device.core().compat.hide_in(cookie, sleep);
    }
}

/// Setup of a compat device by another area.
pub(crate) struct CompatStage {
    /// Runs after the compat device was created.
    pub(crate) setup: fn(&Device, &CoreDevice, &MaySleep) -> Result,
    /// Runs before it is removed.
    pub(crate) cleanup: fn(&CoreDevice, &MaySleep),
}

/// Setup by other areas.
const COMPAT: &[CompatStage] = &[CompatStage {
    setup: sysfs::set_up_ports,
    cleanup: sysfs::clean_up_ports,
}];

impl Compat {
    /// Removes the compat device.
    fn remove(self, sleep: &MaySleep) {
        for stage in COMPAT.iter().rev() {
            (stage.cleanup)(&self.device, sleep);
        }
    }
}

impl CompatDevices {
    /// Adds the compat device of a device in a namespace, unless that is its own or has one already.
    fn show_in(&self, device: &DeviceMemory, net: &NetNamespace, sleep: &MaySleep) -> Result {
        if !netns::is_shared() || device.is_in(net) {
            return Ok(());
        }
        let cookie = net.cookie();
        let mut compat = self.list.lock();
        // `hide` runs when all registration references are dropped: nothing may be added after it.
        if !device.is_registered() || compat.iter().any(|compat| compat.cookie == cookie) {
            return Ok(());
        }
        compat.reserve(1, GFP_KERNEL)?;
        // SAFETY: The device is registered. Its driver waits for unregistration, which calls `hide`: that takes the lock, and removes
        // the compat device.
        let (device, made) = unsafe {
            let device = device.with_driver();
            (device, registry::CLASS.add_compat(device, net, sleep)?)
        };
        for (nth, stage) in COMPAT.iter().enumerate() {
            if let Err(error) = (stage.setup)(device, &made, sleep) {
                for done in COMPAT.iter().take(nth).rev() {
                    (done.cleanup)(&made, sleep);
                }
                return Err(error);
            }
        }
        let made = Compat {
            cookie,
            device: made,
        };
        compat.push_within_capacity(made).map_err(|full| {
            full.0.remove(sleep);
            ENOMEM
        })
    }

    fn hide_in(&self, cookie: u64, sleep: &MaySleep) {
        let mut list = self.list.lock();
        // A namespace has at most one.
        let place = list.iter().position(|compat| compat.cookie == cookie);
        if let Some(compat) = place.and_then(|nth| list.remove(nth).ok()) {
            compat.remove(sleep);
        }
    }

    fn hide(&self, sleep: &MaySleep) {
        let all = core::mem::take(&mut *self.list.lock());
        for compat in all {
            compat.remove(sleep);
        }
    }
}

/// Adds the compat devices of a device in all namespaces.
pub(crate) fn show(device: &DeviceMemory, sleep: &MaySleep) -> Result {
    let nets = NETS.lock();
    for net in nets.iter() {
        device.core().compat.show_in(device, net.get(), sleep)?;
    }
    Ok(())
}

/// Removes all compat devices of a device.
pub(crate) fn hide(device: &DeviceMemory, sleep: &MaySleep) {
    device.core().compat.hide(sleep);
}

/// Renames the compat devices of a device.
pub(crate) fn renamed(device: &Device, sleep: &MaySleep) {
    for compat in device.core().compat.list.lock().iter_mut() {
        if compat.device.rename(&device.name(), sleep).is_err() {
            pr_warn!("a namespace sees a device under its old name\n");
        }
    }
}

/// Sets the mode: shared or exclusive.
///
/// # Errors
///
/// `EBUSY` while a namespace other than the initial one exists, and those of adding a compat device.
pub(crate) fn set_shared(shared: bool, sleep: &MaySleep) -> Result {
    let nets = NETS.lock();
    if netns::is_shared() == shared {
        return Ok(());
    }
    if !nets.is_empty() {
        return Err(EBUSY);
    }
    netns::set_shared(shared);
    drop(nets);
    // New namespaces use the new mode; one that was added before has all compat devices, or none.
    for device in registry::devices(DeviceFilter::All) {
        if !shared {
            hide(&device, sleep);
        } else if device.is_registered() {
            show(&device, sleep)?;
        }
    }
    Ok(())
}
