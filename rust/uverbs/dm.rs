// SPDX-License-Identifier: GPL-2.0

//! Memory of devices, and hints for DMA, of user space.

use kernel::prelude::*;
use rdma::{
    core::{
        dm::DmaHints,
        object::{Fresh, Owned},
        AttrBundle, Dm, Dmah, Uobject,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::verbs::track;

/// Allocates memory of the device for an object that is being made.
///
/// # Errors
///
/// `EINVAL` without a context; `EOPNOTSUPP`, and those of the driver.
pub fn alloc_dm(
    command: &AttrBundle,
    object: &Uobject,
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
    let dm = context
        .device()
        .driver_alloc_dm(context, &mut attr, command, sleep)?;
    // SAFETY: The driver has just made it, and alone knows it besides us.
    unsafe {
        (*dm.as_raw()).length = attr.length as u32;
        (*dm.as_raw()).uobject = object.as_raw();
    }
    Ok(dm)
}

/// Makes hints for DMA for an object that is being made.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and those of the driver.
pub fn alloc_dmah(
    command: &AttrBundle,
    object: &Uobject,
    hints: DmaHints,
    sleep: &MaySleep,
) -> Result<Owned<Dmah>> {
    let context = object.context().ok_or(EINVAL)?;
    let dmah = Fresh::new_dmah(context.device(), object, hints, sleep)?;
    track::begin(&dmah, bindings::RDMA_RESTRACK_DMAH);
    let dmah = dmah.driver_alloc(command, sleep).map_err(track::discard)?;
    track::add(&dmah);
    Ok(dmah)
}

/// Whether a CPU is one, and the present process may run on it.
///
/// # Errors
///
/// `EINVAL`, `EPERM`.
pub fn check_cpu(cpu: u32) -> Result {
    // SAFETY: It reads what the present process has.
    match unsafe { bindings::uverbs_cpu_allowed(cpu) } {
        0 => Ok(()),
        error => Err(Error::from_errno(error)),
    }
}
