// SPDX-License-Identifier: GPL-2.0

//! Compat devices: how a device is seen in sysfs by the namespaces that it is not in.
//!
//! In shared mode, the default, all namespaces see all devices: a device is in the first namespace, and each other one has a
//! compat device in its sysfs. In exclusive mode a device is seen by the namespace that it is in and by no other; it can
//! be moved, and falls back to the first namespace when its own goes. The mode can be changed while no other namespace exists.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NETS` | the namespaces but the first; changes of the mode | process context | `CompatDevices::list` |
//! | `CompatDevices::list` | the compat devices of a device | process context | locks of the driver model, those of `sysfs` |

use core::ptr::NonNull;

use kernel::prelude::*;
use kernel_ext::{net::ns::NetNamespace, static_vec::StaticVec};
use rdma::{
    view::{CoreDevice, Device},
    MaySleep,
};

use super::state::{Compat, CompatDevices};
use crate::{
    private::DeviceExt,
    registry::{self, netns, DeviceFilter},
    sysfs,
};

/// A namespace that is there, as long as it is in the list.
struct Net(NonNull<NetNamespace>);

// SAFETY: Namespaces may be used from any thread.
unsafe impl Send for Net {}

impl Net {
    fn get(&self) -> &NetNamespace {
        // SAFETY: A namespace is taken out of the list before it goes.
        unsafe { self.0.as_ref() }
    }
}

kernel::sync::global_lock! {
    // SAFETY: `init` is called before the module does anything else.
    unsafe(uninit) static NETS: Mutex<StaticVec<Net>> = StaticVec::new();
}

/// Makes the list. The module's initialisation calls it, once.
pub(crate) fn init() {
    // SAFETY: Called once, before all else.
    unsafe { NETS.init() };
}

/// Puts a namespace into the list, and shows it the registered devices.
///
/// # Errors
///
/// What showing the devices fails with: then the namespace is not in the list.
pub(super) fn enter(net: &NetNamespace, sleep: &MaySleep) -> Result {
    let cookie = net.cookie();
    NETS.lock().push(Net(NonNull::from(net)))?;
    show_all_in(cookie, sleep).inspect_err(|_| leave(cookie, sleep))
}

/// Shows the registered devices in a namespace of the list.
fn show_all_in(cookie: u64, sleep: &MaySleep) -> Result {
    for device in registry::devices(DeviceFilter::Registered) {
        let nets = NETS.lock();
        if let Some(net) = nets.iter().find(|net| net.get().cookie() == cookie) {
            device.core().compat.show_in(&device, net.get(), sleep)?;
        }
    }
    Ok(())
}

/// Takes a namespace out of the list, and the devices out of the namespace.
pub(super) fn leave(cookie: u64, sleep: &MaySleep) {
    NETS.lock().retain(|net| net.get().cookie() != cookie);
    for device in registry::devices(DeviceFilter::All) {
        device.core().compat.hide_in(cookie, sleep);
    }
}

/// What is done with a compat device, beyond having it.
pub(crate) struct CompatStage {
    /// Runs when the compat device has been made.
    pub(crate) setup: fn(&CoreDevice, &MaySleep) -> Result,
    /// Runs before it goes.
    pub(crate) cleanup: fn(&CoreDevice, &MaySleep),
}

/// What the areas do with compat devices.
const COMPAT: &[CompatStage] = &[CompatStage {
    setup: sysfs::set_up_ports,
    cleanup: sysfs::clean_up_ports,
}];

impl Drop for Compat {
    fn drop(&mut self) {
        // SAFETY: A compat device goes in process context, with no lock held but mutexes.
        let sleep = &unsafe { MaySleep::assume() };
        for stage in COMPAT.iter().rev() {
            (stage.cleanup)(&self.device, sleep);
        }
    }
}

impl CompatDevices {
    /// Shows a device in a namespace, unless that is its own or sees it already.
    fn show_in(&self, device: &Device, net: &NetNamespace, sleep: &MaySleep) -> Result {
        if !netns::is_shared() || device.net() == net {
            return Ok(());
        }
        let cookie = net.cookie();
        let mut compat = self.list.lock();
        // `hide` comes when nobody keeps the device registered any more: nothing is to be shown after that.
        if !device.is_registered() || compat.iter().any(|compat| compat.cookie == cookie) {
            return Ok(());
        }
        compat.reserve(1, GFP_KERNEL)?;
        let made = registry::CLASS.add_compat(device, net, sleep)?;
        for (nth, stage) in COMPAT.iter().enumerate() {
            if let Err(error) = (stage.setup)(&made, sleep) {
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
        Ok(compat.push(made, GFP_KERNEL)?)
    }

    fn hide_in(&self, cookie: u64, _sleep: &MaySleep) {
        self.list.lock().retain(|compat| compat.cookie != cookie);
    }

    fn hide(&self, _sleep: &MaySleep) {
        let compat = core::mem::take(&mut *self.list.lock());
        drop(compat);
    }
}

/// Shows a device in all namespaces that see it.
pub(crate) fn show(device: &Device, sleep: &MaySleep) -> Result {
    let nets = NETS.lock();
    for net in nets.iter() {
        device.core().compat.show_in(device, net.get(), sleep)?;
    }
    Ok(())
}

/// Takes a device out of all namespaces but its own.
pub(crate) fn hide(device: &Device, sleep: &MaySleep) {
    device.core().compat.hide(sleep);
}

/// Gives the compat devices of a device its new name.
pub(crate) fn renamed(device: &Device, sleep: &MaySleep) {
    for compat in device.core().compat.list.lock().iter() {
        if compat
            .device
            .rename_in_model(&device.name(), sleep)
            .is_err()
        {
            pr_warn!("a namespace sees a device under its old name\n");
        }
    }
}

/// Changes the mode: shared, or exclusive.
///
/// # Errors
///
/// `EBUSY` while there is another namespace than the first, and what showing the devices fails with.
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
    // Namespaces that come from now on see the new mode; those that came just now have been shown all, or nothing.
    for device in registry::devices(DeviceFilter::All) {
        if !shared {
            hide(&device, sleep);
        } else if device.is_registered() {
            show(&device, sleep)?;
        }
    }
    Ok(())
}
