// SPDX-License-Identifier: GPL-2.0

//! Network namespaces: who sees a device.
//!
//! In shared mode, the default, all namespaces see all devices: a device is in the first namespace, and each other one has a
//! compat device in its sysfs. In exclusive mode a device is seen by the namespace that it is in and by no other; it can
//! be moved, and falls back to the first namespace when its own goes. The mode can be changed while no other namespace exists.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NETS` | the namespaces but the first; changes of the mode | process context | `DeviceState::compat` |
//! | `DeviceState::compat` | the compat devices of a device | process context | locks of the driver model, those of `sysfs` |

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{
    new_mutex,
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::{
    door::Const,
    export::export,
    net::ns::{impl_has_pernet_slot, NetNamespace, PerNamespace, PernetRegistration},
    param::bool_param,
    roll::Roll,
};
use rdma::{
    view::{class::CompatDevice, CoreDevice, Device, Registered},
    MaySleep,
};

use crate::{
    device,
    private::DeviceExt,
    registry::{self, Which},
    sysfs,
};

/// Whether all namespaces see all devices.
static SHARED: AtomicBool = AtomicBool::new(true);

bool_param!(
    c"netns_mode",
    SHARED,
    b"parmtype=netns_mode:bool\0parm=netns_mode:Share device among net namespaces; default=1 (shared)\0"
);

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
    unsafe(uninit) static NETS: Mutex<Roll<Net>> = Roll::new();
}

/// Makes the list. The module's initialisation calls it, once.
pub(crate) fn init() {
    // SAFETY: Called once, before all else.
    unsafe { NETS.init() };
}

/// Hears of namespaces while the module is there.
pub(crate) type Registration = PernetRegistration<Namespace>;

/// Begins to hear of namespaces.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    PernetRegistration::new(sleep)
}

/// What the core has in a namespace.
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
        NETS.lock().push(Net(NonNull::from(net)))?;
        if let Err(error) = show_all_in(cookie, sleep) {
            leave(cookie, sleep);
            return Err(error);
        }
        Ok(this)
    }

    fn exit(this: Arc<Self>, sleep: &MaySleep) {
        leave(this.cookie, sleep);
        for device in registry::devices(Which::All) {
            if device.net().cookie() == this.cookie && this.cookie != NetNamespace::init().cookie()
            {
                // It fails for a device that goes.
                let _ = change(&device, this.cookie, NetNamespace::init(), sleep);
            }
        }
    }
}

/// Shows the registered devices in a namespace of the list.
fn show_all_in(cookie: u64, sleep: &MaySleep) -> Result {
    for device in registry::devices(Which::Registered) {
        let nets = NETS.lock();
        if let Some(net) = nets.iter().find(|net| net.get().cookie() == cookie) {
            device.core().netns.show_in(&device, net.get(), sleep)?;
        }
    }
    Ok(())
}

/// Takes a namespace out of the list, and the devices out of the namespace.
fn leave(cookie: u64, sleep: &MaySleep) {
    NETS.lock().retain(|net| net.get().cookie() != cookie);
    for device in registry::devices(Which::All) {
        device.core().netns.hide_in(cookie, sleep);
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

/// A compat device, set up.
struct Compat {
    cookie: u64,
    device: CompatDevice,
}

impl Drop for Compat {
    fn drop(&mut self) {
        // SAFETY: A compat device goes in process context, with no lock held but mutexes.
        let sleep = &unsafe { MaySleep::assume() };
        for stage in COMPAT.iter().rev() {
            (stage.cleanup)(&self.device, sleep);
        }
    }
}

/// The compat devices of a device.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    compat: Mutex<KVec<Compat>>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            compat <- new_mutex!(KVec::new(), "DeviceState::compat"),
        })
    }

    /// Shows a device in a namespace, unless that is its own or sees it already.
    fn show_in(&self, device: &Device, net: &NetNamespace, sleep: &MaySleep) -> Result {
        if !is_shared() || device.net() == net {
            return Ok(());
        }
        let cookie = net.cookie();
        let mut compat = self.compat.lock();
        // `hide` comes when nobody keeps the device registered any more: nothing is to be shown after that.
        if !device.is_registered() || compat.iter().any(|compat| compat.cookie == cookie) {
            return Ok(());
        }
        compat.reserve(1, GFP_KERNEL)?;
        let made = device::CLASS.add_compat(device, net, sleep)?;
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
        self.compat.lock().retain(|compat| compat.cookie != cookie);
    }

    fn hide(&self, _sleep: &MaySleep) {
        let compat = core::mem::take(&mut *self.compat.lock());
        drop(compat);
    }
}

/// Whether all namespaces see all devices.
pub(crate) fn is_shared() -> bool {
    SHARED.load(Ordering::Acquire)
}

/// Whether a device may be used from a namespace.
pub(crate) fn may_access(device: &Device, net: &NetNamespace) -> bool {
    is_shared() || device.net() == net
}

/// Shows a device in all namespaces that see it.
pub(crate) fn show(device: &Device, sleep: &MaySleep) -> Result {
    let nets = NETS.lock();
    for net in nets.iter() {
        device.core().netns.show_in(device, net.get(), sleep)?;
    }
    Ok(())
}

/// Takes a device out of all namespaces but its own.
pub(crate) fn hide(device: &Device, sleep: &MaySleep) {
    device.core().netns.hide(sleep);
}

/// Gives the compat devices of a device its new name.
pub(crate) fn renamed(device: &Device, sleep: &MaySleep) {
    for compat in device.core().netns.compat.lock().iter() {
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
    if is_shared() == shared {
        return Ok(());
    }
    if !nets.is_empty() {
        return Err(EBUSY);
    }
    SHARED.store(shared, Ordering::Release);
    drop(nets);
    // Namespaces that come from now on see the new mode; those that came just now have been shown all, or nothing.
    for device in registry::devices(Which::All) {
        if !shared {
            hide(&device, sleep);
        } else if device.is_registered() {
            show(&device, sleep)?;
        }
    }
    Ok(())
}

/// Moves a device from the namespace with this cookie to another: it is disabled, and enabled there.
///
/// # Errors
///
/// `ENODEV` for a device that is not registered or not there, and what enabling fails with: it stays registered then.
fn change(device: &Device, from: u64, to: &NetNamespace, sleep: &MaySleep) -> Result {
    device::with_change_lock(device, || {
        if !device.is_registered() || device.net().cookie() != from {
            return Err(ENODEV);
        }
        device.announce_leaving(sleep);
        device::disable(device, sleep);
        let old = device.set_net(to);
        let renamed = device.core_device().rename_in_model(&device.name(), sleep);
        if renamed.is_err() {
            device.restore_net(old);
        }
        let registered = device::begin_registered(device).ok_or(EINVAL)?;
        let enabled = device::enable(&registered, sleep);
        device.announce(sleep);
        renamed.and(enabled)
    })
}

/// Moves a registered device to another namespace, on behalf of somebody in `from`; gives up the reference.
///
/// # Errors
///
/// `EOPNOTSUPP` in shared mode, and for a device that cannot be taken from programs; those of [`change`].
pub(crate) fn move_to(
    device: Registered,
    from: &NetNamespace,
    to: &NetNamespace,
    sleep: &MaySleep,
) -> Result {
    if is_shared() || !device.has_disassociate() {
        return Err(kernel_ext::error::EOPNOTSUPP);
    }
    let held = device.hold();
    drop(device);
    change(&held, from.cookie(), to, sleep)
}

/// Returns whether a device may be used from a namespace. Any context.
///
/// C header: `include/rdma/ib_verbs.h`.
#[export]
fn rdma_dev_access_netns(device: Const<'_, Device>, net: Const<'_, NetNamespace>) -> bool {
    may_access(&device, &net)
}

/// Returns whether the present process may use raw packets on a device: whether it has `CAP_NET_RAW` in the user namespace
/// of the device's network namespace, or of the first one in shared mode.
#[export]
fn rdma_dev_has_raw_cap(dev: Const<'_, Device>) -> bool {
    has_raw_cap(&dev)
}

/// The same, for the core.
pub(crate) fn has_raw_cap(device: &Device) -> bool {
    let net = if is_shared() {
        NetNamespace::init()
    } else {
        device.net()
    };
    rdma::view::device::has_raw_cap(net)
}
