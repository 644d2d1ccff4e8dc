// SPDX-License-Identifier: GPL-2.0

//! Flow counters of user space.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma::{
    core::{
        object::{Fresh, Owned},
        uobject::ObjectLink,
        AttrBundle, Counters,
    },
    MaySleep,
};

/// Creates flow counters for an object that is being created.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and those of the driver.
pub fn create(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    sleep: &MaySleep,
) -> Result<Owned<Counters>> {
    let context = object.context().ok_or(EINVAL)?;
    let counters = Fresh::new_counters(context.device(), object, sleep)?;
    counters
        .driver_create(command, sleep)
        .map_err(|failed| failed.error)
}
