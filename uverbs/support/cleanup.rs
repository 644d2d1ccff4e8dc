// SPDX-License-Identifier: GPL-2.0

//! Destroying all objects of a file when it is closed or its device removed, and objects whose own file is released.
//!
//! C header: `include/rdma/uverbs_types.h`.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings::inode, export::export};
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Uobject},
    MaySleep,
};
use rdma_uverbs::{
    file::{hw_destroy, LastFile},
    handles::NewFile,
    life::{self, Exclusive, LockedFile, OwnCommand, Released, ReleasedFile},
    list,
};

use crate::object;

/// Destroys one object. No command has it locked.
fn destroy_one(
    object: &Uobject,
    why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    let object = Exclusive::try_lock(object).inspect_err(|_| {
        kernel::warn_on!(true);
    })?;
    if why == RemoveReason::DriverFailure {
        object.disown();
    }
    object::destroy(object, why, command, sleep)
}

/// Tries to destroy each object of a file once, newest first.
///
/// # Errors
///
/// `EINVAL` if none was destroyed, or the file has no context.
pub(crate) fn destroy_all(file: LockedFile<'_>, why: RemoveReason, sleep: &MaySleep) -> Result {
    let mut command = file.command();
    let command = command.get();
    let context = life::use_context(command).ok_or(EINVAL)?;
    life::announce_cleanup(&file, context, sleep);
    let mut progress = Err(EINVAL);
    let mut following = list::first(&file);
    while let Some(object) = following {
        following = list::next(&object);
        if destroy_one(&object, why, command, sleep).is_ok() {
            progress = Ok(());
        }
    }
    if why == RemoveReason::DriverFailure {
        kernel::warn_on!(!list::is_empty(&file));
        return Ok(());
    }
    progress
}

/// Destroys an object whose file is released, unless all objects of the device file are being destroyed.
fn release(released: Released, sleep: &MaySleep) {
    if let Some(hw_destroy) = hw_destroy(&released.file).try_read() {
        // The guard is the file's. The file of an object is not released while the object is looked up.
        let _ = OwnCommand::new(&released.file, &hw_destroy).and_then(|mut command| {
            let command = command.get();
            life::use_context(command);
            destroy_one(&released.object, RemoveReason::Close, command, sleep)
        });
    }
    drop(released);
}

/// Tries to destroy each object of a file once; `hw_destroy_rwsem` is held to write. Process context.
///
/// # Errors
///
/// `EINVAL` if none was destroyed, or the file has no context.
#[export(GPL, ns = "rdma_core")]
fn __uverbs_cleanup_ufile(ufile: LockedFile<'_>, reason: RemoveReason, sleep: &MaySleep) -> Result {
    destroy_all(ufile, reason, sleep)
}

/// The `release` method of objects' files.
#[export]
fn uverbs_uobject_fd_release(_inode: *mut inode, filp: ReleasedFile, sleep: &MaySleep) -> c_int {
    if let Some(released) = filp.into_object() {
        release(released, sleep);
    }
    0
}

/// Destroys an object whose file is released, and drops the file's references. Process context.
#[export(GPL, ns = "rdma_core")]
fn uverbs_uobject_release(uobj: Released, sleep: &MaySleep) -> c_int {
    release(uobj, sleep);
    0
}

/// Initialises the handles of a new file.
#[export(GPL, ns = "rdma_core")]
fn setup_ufile_idr_uobject(ufile: NewFile<'_>) {
    ufile.init();
}

/// Frees a file with its last reference. Process context.
#[export(GPL, ns = "rdma_core")]
fn ib_uverbs_release_file(kref: LastFile) {
    drop(kref);
}
