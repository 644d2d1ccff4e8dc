// SPDX-License-Identifier: GPL-2.0

//! What the verbs tell resource tracking of an object, from its making to its end.

use kernel::prelude::*;
use kernel_ext::door::Const;
use rdma::{
    core::{
        object::{Destroyed, DriverObject, Failed, Fresh, Owned, Tracked},
        qp::Caller,
        restrack::Owns,
    },
    MaySleep,
};

use crate::restrack;

/// An object is about to be made, for a module of the kernel or for the present process.
pub(crate) fn begin(object: &impl Owns, kind: u32, caller: Caller) {
    restrack::rdma_restrack_new(object.entry(), kind);
    restrack::rdma_restrack_set_name(object.entry(), caller.as_ptr());
}

/// An object is about to be made, for whom another one was made.
pub(crate) fn begin_under(object: &impl Owns, kind: u32, parent: &impl Tracked) {
    restrack::rdma_restrack_new(object.entry(), kind);
    restrack::rdma_restrack_parent_name(object.entry(), Const(parent.res()));
}

/// The object has been made: from now on it is listed.
pub(crate) fn add(object: &impl Owns) {
    restrack::rdma_restrack_add(object.entry());
}

/// The driver has not made the object: it is forgotten and freed.
pub(crate) fn discard<T: DriverObject + Tracked>(failed: Failed<Fresh<T>>) -> Error {
    // SAFETY: `begin` was called for the object, which is not listed before the driver has made it.
    unsafe { failed.object.entry().abandon() };
    failed.error
}

/// The object is not listed any more; waits until nobody looks at it.
pub(crate) fn remove(object: &impl Owns, sleep: &MaySleep) {
    restrack::rdma_restrack_del(object.entry(), sleep);
}

/// Lets `destroy` destroy an object, which is not listed meanwhile, and is again if it lives on.
///
/// # Errors
///
/// What `destroy` fails with.
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
