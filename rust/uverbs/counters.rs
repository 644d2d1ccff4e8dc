// SPDX-License-Identifier: GPL-2.0

//! Counters of flows, of user space.

use kernel::prelude::*;
use rdma::{
    core::{
        object::{Fresh, Owned},
        AttrBundle, Counters, Uobject,
    },
    MaySleep,
};

/// Makes counters of flows for an object that is being made.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and those of the driver.
pub fn create(command: &AttrBundle, object: &Uobject, sleep: &MaySleep) -> Result<Owned<Counters>> {
    let context = object.context().ok_or(EINVAL)?;
    let counters = Fresh::new_counters(context.device(), object, sleep)?;
    counters
        .driver_create(command, sleep)
        .map_err(|failed| failed.error)
}
