// SPDX-License-Identifier: GPL-2.0

//! What the verbs tell resource tracking of an object, from its making to its end.

use kernel::prelude::*;
use kernel_ext::door::Const;
use rdma::{
    view::{
        object::{Destroyed, DriverObject, Failed, Fresh, Owned, Tracked},
        qp::Caller,
    },
    MaySleep,
};

use crate::restrack;

/// An object is about to be made, for a module of the kernel or for the present process.
pub(crate) fn begin(object: &impl Tracked, kind: u32, caller: Caller) {
    restrack::rdma_restrack_new(object.res(), kind);
    restrack::rdma_restrack_set_name(object.res(), caller.as_ptr());
}

/// An object is about to be made, for whom another one was made.
pub(crate) fn begin_under(object: &impl Tracked, kind: u32, parent: &impl Tracked) {
    restrack::rdma_restrack_new(object.res(), kind);
    restrack::rdma_restrack_parent_name(object.res(), Const(parent.res()));
}

/// The object has been made: from now on it is listed.
pub(crate) fn add(object: &impl Tracked) {
    restrack::rdma_restrack_add(object.res());
}

/// The driver has not made the object: it is forgotten and freed.
pub(crate) fn discard<T: DriverObject + Tracked>(failed: Failed<Fresh<T>>) -> Error {
    let _ = restrack::rdma_restrack_put(failed.object.res());
    failed.error
}

/// The object is not listed any more; waits until nobody looks at it.
pub(crate) fn remove(object: &impl Tracked, sleep: &MaySleep) {
    restrack::rdma_restrack_del(object.res(), sleep);
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
    restrack::rdma_restrack_begin_del(object.res(), sleep);
    match destroy(object) {
        Ok(memory) => {
            restrack::rdma_restrack_commit_del(memory.res());
            Ok(memory)
        }
        Err(failed) => {
            restrack::rdma_restrack_abort_del(failed.object.res());
            Err(failed.keep())
        }
    }
}
