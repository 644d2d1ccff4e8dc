// SPDX-License-Identifier: GPL-2.0

//! In which order the areas take part in a device's life.
//!
//! Each list is constant, and walked in order; what undoes a list walks it in reverse. An area adds a line here
//! and nothing elsewhere.

use kernel::error::Result;
use rdma::{core::Device, MaySleep};

use super::{cgroup, dispatch};
use crate::{counters, cq::pool, gid::cache_update, sysfs};

/// A step of registration, and what undoes it.
pub(crate) struct Stage {
    /// Runs when a device is registered. What it has done when it fails, it has undone.
    pub(crate) setup: fn(&Device, &MaySleep) -> Result,
    /// Runs when a device is unregistered, and when a later step of its registration fails.
    pub(crate) cleanup: fn(&Device, &MaySleep),
}

/// The steps of registration.
///
/// Before the first one the device has a name, its ports, its immutable data and its attributes. After the last one it is
/// enabled: marked as registered, told to its driver, to the clients and to the namespaces. Unregistering disables the device
/// before it undoes the steps, so that they find it without users.
pub(crate) const REGISTER: &[Stage] = &[
    Stage {
        setup: dispatch::open,
        cleanup: dispatch::close,
    },
    Stage {
        setup: cache_update::set_up,
        cleanup: cache_update::clean_up,
    },
    // Events that are on their way change caches, so they end before the caches go.
    Stage {
        setup: |_, _| Ok(()),
        cleanup: dispatch::close,
    },
    // What files a device has is said before it comes into the driver model.
    Stage {
        setup: sysfs::set_up_device,
        cleanup: sysfs::clean_up_device,
    },
    Stage {
        setup: cgroup::register,
        cleanup: cgroup::unregister,
    },
    Stage {
        setup: counters::set_up,
        cleanup: counters::clean_up,
    },
    Stage {
        setup: Device::add_to_model,
        cleanup: Device::remove_from_model,
    },
    Stage {
        setup: |device, sleep| sysfs::set_up_ports(device.core_device(), sleep),
        cleanup: |device, sleep| sysfs::clean_up_ports(device.core_device(), sleep),
    },
];

/// What ends when no client has the device any more, before unregistration waits for references to it.
pub(crate) const QUIESCE: &[fn(&Device, &MaySleep)] = &[pool::free_all];

/// Goes through the steps of registration; undoes those that are done where one fails.
pub(crate) fn set_up(device: &Device, sleep: &MaySleep) -> Result {
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

/// Undoes the steps of registration.
pub(crate) fn clean_up(device: &Device, sleep: &MaySleep) {
    for stage in REGISTER.iter().rev() {
        (stage.cleanup)(device, sleep);
    }
}
