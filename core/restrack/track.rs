// SPDX-License-Identifier: GPL-2.0

//! Calls of the verbs to resource tracking during an object's lifetime.
//!
//! C header: `include/rdma/restrack.h`.

use kernel::prelude::*;
use kernel_ext::entry::Const;
use rdma::{
    core::{
        object::{Destroyed, DriverObject, Failed, Fresh, Owned, Tracked},
        qp::Caller,
        restrack::{Owns, Unlisted},
    },
    MaySleep,
};

use crate::restrack;

/// Lets an object that is being created belong to a kernel module or the current process.
pub(crate) fn set_owner(object: &mut impl Unlisted, caller: Caller) {
    restrack::rdma_restrack_set_name(object.unlisted(), caller);
}

/// Lets an object that is being created belong to the owner of another one.
pub(crate) fn set_owner_of(object: &mut impl Unlisted, parent: &impl Tracked) {
    restrack::rdma_restrack_parent_name(object.unlisted(), Const(parent.res()));
}

/// Lists an object that was created, unless it is listed.
pub(crate) fn add(object: &impl Owns) {
    if !object.entry().is_valid() {
        restrack::rdma_restrack_add(object.entry());
    }
}

/// Stops tracking an object that the driver has failed to create, and frees it.
pub(crate) fn discard<T: DriverObject + Tracked>(mut failed: Failed<Fresh<T>>) -> Error {
    failed.object.unlisted().abandon();
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
        Ok(mut memory) => {
            restrack::rdma_restrack_commit_del(memory.unlisted());
            Ok(memory)
        }
        Err(failed) => {
            restrack::rdma_restrack_abort_del(failed.object.entry());
            Err(failed.keep())
        }
    }
}
