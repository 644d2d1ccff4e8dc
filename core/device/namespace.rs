// SPDX-License-Identifier: GPL-2.0

//! Devices move between network namespaces: when they are asked to, and when their namespace goes.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    error::EOPNOTSUPP,
    net::ns::{impl_has_pernet_slot, NetNamespace, PerNamespace, PernetRegistration},
};
use rdma::{
    view::{Device, Registered},
    MaySleep,
};

use super::compat;
use crate::{
    device,
    registry::{self, netns, DeviceFilter},
};

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
        compat::enter(net, sleep)?;
        Ok(this)
    }

    fn exit(this: Arc<Self>, sleep: &MaySleep) {
        compat::leave(this.cookie, sleep);
        for device in registry::devices(DeviceFilter::All) {
            if device.net().cookie() == this.cookie && this.cookie != NetNamespace::init().cookie()
            {
                // It fails for a device that goes.
                let _ = change(&device, this.cookie, NetNamespace::init(), sleep);
            }
        }
    }
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
    if netns::is_shared() || !device.has_disassociate() {
        return Err(EOPNOTSUPP);
    }
    let held = device.hold();
    drop(device);
    change(&held, from.cookie(), to, sleep)
}
