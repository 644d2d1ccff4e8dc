// SPDX-License-Identifier: GPL-2.0

//! Calls of the verbs to resource tracking during an object's lifetime.

use kernel::prelude::*;
use kernel_ext::entry::Const;
use rdma::{
    core::{
        object::{Destroyed, DriverObject, Failed, Fresh, Owned, Tracked},
        qp::Caller,
        restrack::Owns,
    },
    MaySleep,
};

use crate::restrack;

/// Starts tracking an object that is being created, for a kernel module or the current process.
pub(crate) fn begin(object: &impl Owns, kind: u32, caller: Caller) {
    restrack::rdma_restrack_new(object.entry(), kind);
    restrack::rdma_restrack_set_name(object.entry(), caller.as_ptr());
}

/// Starts tracking an object that is being created, with the owner of another one.
pub(crate) fn begin_under(object: &impl Owns, kind: u32, parent: &impl Tracked) {
    restrack::rdma_restrack_new(object.entry(), kind);
    restrack::rdma_restrack_parent_name(object.entry(), Const(parent.res()));
}

/// Lists an object that was created.
pub(crate) fn add(object: &impl Owns) {
    restrack::rdma_restrack_add(object.entry());
}

/// Stops tracking an object that the driver has failed to create, and frees it.
pub(crate) fn discard<T: DriverObject + Tracked>(failed: Failed<Fresh<T>>) -> Error {
    // SAFETY: `begin` was called for the object, which is not listed before the driver has made it.
    unsafe { failed.object.entry().abandon() };
    failed.error
}

/// Removes an object from the list, and waits for its readers.
pub(crate) fn remove(object: &impl Owns, sleep: &MaySleep) {
    restrack::rdma_restrack_del(object.entry(), sleep);
}

/// Calls `destroy` for an object, which is not listed meanwhile; if it fails, the object is listed again.
///
/// # Errors
///
/// Errors of `destroy`.
pub(crate) fn destroy<T: DriverObject + Tracked>(
    object: Owned<T>,
    sleep: &MaySleep,
    destroy: impl FnOnce(Owned<T>) -> Destroyed<T>,
) -> Result<Fresh<T>> {
    restrack::rdma_restrack_begin_del(object.entry(), sleep);
    match destroy(object) {
        Ok(memory) => {
            restrack::rdma_restrack_commit_del(memory.entry());
            Ok(memory)
        }
        Err(failed) => {
            restrack::rdma_restrack_abort_del(failed.object.entry());
            Err(failed.keep())
        }
    }
}
