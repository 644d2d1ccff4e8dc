// SPDX-License-Identifier: GPL-2.0

//! Completion counters of user space: `struct ib_comp_cntr`, for kernels whose headers have them.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::error::EOPNOTSUPP;
use rdma::{
    core::{
        comp_cntr::CompCntr,
        object::{Fresh, Owned, Tracked},
        uobject::{ObjectLink, RemoveReason},
        AttrBundle, Uobject,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{
    class::{Class, Destroying},
    destroy::{destroy, driver_object},
    verbs::track,
};

// SAFETY: ib_uverbs has a table entry of the class with this ID; a `Uobject` is a transparent `ib_uobject`.
unsafe impl Class for CompCntr {
    const ID: u16 = bindings::UVERBS_OBJECT_COMP_CNTR as u16;
    type Memory = Uobject;
}

/// Creates a counter for an object that is being created.
///
/// # Errors
///
/// `EINVAL` without a context; `EOPNOTSUPP`, `ENOMEM`, and those of the driver.
pub fn create(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    sleep: &MaySleep,
) -> Result<Owned<CompCntr>> {
    let device = object.context().ok_or(EINVAL)?.device();
    if !device.has_comp_cntr() {
        return Err(EOPNOTSUPP);
    }
    let mut counter = Fresh::new_comp_cntr(device, object, sleep)?;
    track::set_owner(&mut counter);
    let counter = counter.driver_create(command, sleep);
    let counter = counter.map_err(track::discard)?;
    track::add(&counter);
    Ok(counter)
}

/// Destroys a counter.
///
/// # Errors
///
/// `EBUSY` while a queue pair uses it, and those of the driver.
pub fn end(
    object: Destroying<'_, CompCntr>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    let memory = destroy(&object, |counter| {
        // SAFETY: The object is listed; the function waits until its entry has no references.
        unsafe { bindings::rdma_restrack_begin_del(counter.res().as_raw()) };
        counter.driver_destroy(sleep).inspect_err(|failed| {
            // SAFETY: The object is valid, and `rdma_restrack_begin_del` has removed it from the list.
            unsafe { bindings::rdma_restrack_abort_del(failed.object.res().as_raw()) };
        })
    })?;
    // SAFETY: `rdma_restrack_begin_del` has removed the object from the list; its memory is not freed yet.
    unsafe { bindings::rdma_restrack_commit_del(memory.res().as_raw()) };
    Ok(())
}
