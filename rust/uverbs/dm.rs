// SPDX-License-Identifier: GPL-2.0

//! Device memory (`struct ib_dm`) and DMA handles (`struct ib_dmah`: TPH hints) of user space.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma::{
    core::{
        dm::DmaHints,
        object::{Fresh, Owned},
        uobject::ObjectLink,
        AttrBundle, Dm, Dmah,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::verbs::track;

/// Allocates device memory for an object that is being created.
///
/// # Errors
///
/// `EINVAL` without a context; `EOPNOTSUPP`, and those of the driver.
pub fn alloc_dm(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    length: u64,
    alignment: u32,
    sleep: &MaySleep,
) -> Result<Owned<Dm>> {
    let context = object.context().ok_or(EINVAL)?;
    let mut attr = bindings::ib_dm_alloc_attr {
        length,
        alignment,
        flags: 0,
    };
    let dm = context.driver_alloc_dm(&mut attr, command, sleep)?;
    // SAFETY: The driver has just created it, and only this thread and the driver use it.
    unsafe {
        (*dm.as_raw()).length = attr.length as u32;
        (*dm.as_raw()).uobject = object.as_raw();
    }
    Ok(dm)
}

/// Allocates a DMA handle for an object that is being created.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and those of the driver.
pub fn alloc_dmah(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    hints: DmaHints,
    sleep: &MaySleep,
) -> Result<Owned<Dmah>> {
    let context = object.context().ok_or(EINVAL)?;
    let mut dmah = Fresh::new_dmah(context.device(), object, hints, sleep)?;
    track::set_owner(&mut dmah);
    let dmah = dmah.driver_alloc(command, sleep).map_err(track::discard)?;
    track::add(&dmah);
    Ok(dmah)
}

/// Checks that a CPU exists, and that the current process may run on it.
///
/// # Errors
///
/// `EINVAL`, `EPERM`.
pub fn check_cpu(cpu: u32) -> Result {
    // SAFETY: The function reads the current process.
    match unsafe { bindings::uverbs_cpu_allowed(cpu) } {
        0 => Ok(()),
        error => Err(Error::from_errno(error)),
    }
}
