// SPDX-License-Identifier: GPL-2.0

//! The steps of device registration and unregistration.
//!
//! Each list is constant and run in order; cleanup runs it in reverse. An area adds a line here and nothing elsewhere.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_register_device`).

use kernel::error::Result;
use rdma::{
    core::{class::Registering, Device},
    MaySleep,
};

use super::{cgroup, dispatch};
use crate::{counters, cq::pool, gid::cache_update, private::DeviceExt, sysfs};

/// A step of registration, and its cleanup.
pub(crate) struct Stage {
    /// Runs when a device is registered. On failure it leaves nothing to clean up.
    pub(crate) setup: fn(&mut Registering<'_>, &MaySleep) -> Result,
    /// Runs when a device is unregistered, and when a later step of its registration fails.
    pub(crate) cleanup: fn(&Device, &MaySleep),
}

/// The steps of registration.
///
/// Before the first step the device has a name, its ports, its immutable data and its attributes. After the last one it
/// is enabled: marked as registered, and added to its driver, the clients and the namespaces. Unregistration disables
/// the device first, so that cleanup finds it without users.
pub(crate) const REGISTER: &[Stage] = &[
    Stage {
        setup: |device, sleep| dispatch::open(device, sleep),
        cleanup: dispatch::close,
    },
    Stage {
        setup: |device, sleep| cache_update::set_up(device, sleep),
        cleanup: cache_update::clean_up,
    },
    // Queued events update caches, so the queue is closed before the caches are cleaned up.
    Stage {
        setup: |_, _| Ok(()),
        cleanup: dispatch::close,
    },
    // The sysfs groups are set before the device is added to the driver model, and freed when it is removed from it.
    Stage {
        setup: sysfs::set_up_device,
        cleanup: |_, _| (),
    },
    Stage {
        setup: cgroup::register,
        cleanup: cgroup::unregister,
    },
    Stage {
        setup: |device, sleep| counters::set_up(device, sleep),
        cleanup: counters::clean_up,
    },
    Stage {
        setup: add_to_model,
        cleanup: remove_from_model,
    },
    Stage {
        setup: |device, sleep| sysfs::set_up_ports(device, device.core_device(), sleep),
        cleanup: |device, sleep| sysfs::clean_up_ports(device.core_device(), sleep),
    },
];

/// Puts a device into the driver model.
fn add_to_model(device: &mut Registering<'_>, sleep: &MaySleep) -> Result {
    // SAFETY: `remove_from_model` is the clean-up of this step, and unregistration, which the driver waits for, does it.
    let entry = unsafe { device.add_to_model(sleep)? };
    *device.core().lifecycle.model.lock() = Some(entry);
    Ok(())
}

/// Takes a device out of the driver model.
fn remove_from_model(device: &Device, sleep: &MaySleep) {
    // Removal waits for the device's files, so the lock is not held.
    let entry = device.core().lifecycle.model.lock().take();
    if let Some(entry) = entry {
        entry.remove(sleep);
    }
}

/// Steps after the removal of all clients, before unregistration waits for references.
pub(crate) const QUIESCE: &[fn(&Device, &MaySleep)] = &[pool::free_all];

/// Runs the steps of registration; on failure cleans up those that are done.
pub(crate) fn set_up(device: &mut Registering<'_>, sleep: &MaySleep) -> Result {
    for (nth, stage) in REGISTER.iter().enumerate() {
        if let Err(error) = (stage.setup)(device, sleep) {
            for done in REGISTER.iter().take(nth).rev() {
                (done.cleanup)(device, sleep);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Cleans up the steps of registration.
pub(crate) fn clean_up(device: &Device, sleep: &MaySleep) {
    for stage in REGISTER.iter().rev() {
        (stage.cleanup)(device, sleep);
    }
}
