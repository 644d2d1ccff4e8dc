// SPDX-License-Identifier: GPL-2.0

//! Creating, looking up and destroying the objects of user space (`struct ib_uobject`), with their locks.
//!
//! | step | locks held |
//! |---|---|
//! | begin … commit or abort | the object for writing, not published; `hw_destroy_rwsem` of the file to read |
//! | look up … put | the object, for reading or writing |
//! | destroy | the object for writing; `hw_destroy_rwsem` to read, or to write where all are destroyed |
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings::{self, ib_uobject},
    entry::{Const, ErrPtr, IntoC},
    error::EOPNOTSUPP,
    export::export,
};
use rdma::{
    core::{
        command::UverbsFile,
        uobject::{LookupMode, RemoveReason},
        AttrBundle, Uobject,
    },
    MaySleep,
};
use rdma_uverbs::{
    file,
    life::{
        self, Acquired, AcquiredArg, AcquiredFor, Exclusive, Found, FoundArg, FoundMode, Kind,
        LookedUp, Reference, Uncommitted, UncommittedOrErr,
    },
    list,
};

use crate::handle;

#[cfg(CONFIG_KUNIT = "y")]
mod kunit;

/// Destroys an object, and unlocks it; one that user space destroys stays locked, so that commands that still find it get `EBUSY`.
/// If it cannot be destroyed, it is unlocked and stays.
pub(crate) fn destroy(
    object: Exclusive<'_>,
    why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if let Err(error) = handle::destroy(&object, why, command, sleep) {
        object.unlock();
        return Err(error);
    }
    let by_command = why == RemoveReason::Destroy;
    if by_command {
        handle::remove(&object);
    }
    object.end(by_command);
    Ok(())
}

fn begin(kind: Kind<'_>, command: &AttrBundle, sleep: &MaySleep) -> Result<Uncommitted> {
    let Kind::Of(kind) = kind else {
        return Err(EINVAL);
    };
    let file = command.file();
    let hw_destroy = file::hw_destroy(file).try_read().ok_or(EIO)?;
    if command.context().is_none() {
        if !file.has_device() {
            return Err(EIO);
        }
        life::use_context(command).ok_or(EINVAL)?;
    }
    let object = handle::begin(kind, command, sleep)?;
    Uncommitted::new(object, hw_destroy)
}

fn commit(object: Uncommitted) {
    object.finish(|object, file| {
        list::add(object.hold());
        object.publish(file);
    });
}

fn abort(object: Uncommitted, complete: bool, command: &AttrBundle, sleep: &MaySleep) {
    let why = RemoveReason::Abort;
    if complete && handle::destroy(&object.exclusive(), why, command, sleep).is_err() {
        kernel::warn_on!(true);
        return commit(object);
    }
    object.finish(|object, _file| handle::abort(object));
}

fn look_up(
    kind: Kind<'_>,
    file: &UverbsFile,
    id: i64,
    mode: LookupMode,
    command: Option<&AttrBundle>,
) -> Result<Found> {
    let mut found = match kind {
        Kind::Absent => return Err(EINVAL),
        Kind::Any => handle::find_number(file, id)?,
        Kind::Of(kind) => {
            let found = handle::find(kind, file, id, mode)?;
            if !core::ptr::eq(found.api_object(), kind) {
                return Err(EINVAL);
            }
            found
        }
    };
    // The handles of objects that were destroyed with the device can be freed.
    if mode != LookupMode::Destroy && !file.has_device() {
        return Err(EIO);
    }
    found.lock(mode)?;
    if let Some(command) = command {
        life::use_context(command);
    }
    Ok(found)
}

fn destroy_by_command(object: &Uobject, command: &AttrBundle, sleep: &MaySleep) -> Result {
    let _hw_destroy = file::hw_destroy(command.file()).read(sleep);
    let object = Exclusive::try_lock(object)?;
    destroy(object, RemoveReason::Destroy, command, sleep)
}

fn get_destroyed(kind: Kind<'_>, id: u32, command: &AttrBundle, sleep: &MaySleep) -> Result<Found> {
    let mode = LookupMode::Destroy;
    let found = look_up(kind, command.file(), id.into(), mode, Some(command))?;
    destroy_by_command(&found, command, sleep)?;
    Ok(found)
}

/// Begins an object, which lookups do not find. `hw_destroy_rwsem` is held to read until it is committed or aborted. Process
/// context.
///
/// # Errors
///
/// `EINVAL` if the device has no such objects or the file no context; `EIO` if the device was removed or the file's objects
/// are being destroyed; `ENOMEM`, `EMFILE`; those of the rdma cgroup.
#[export(GPL, ns = "rdma_core")]
fn rdma_alloc_begin_uobject(
    obj: Kind<'_>,
    attrs: &AttrBundle,
    sleep: &MaySleep,
) -> UncommittedOrErr {
    UncommittedOrErr(begin(obj, attrs, sleep))
}

/// Commits an object that was begun. Process context.
#[export(GPL, ns = "rdma_core")]
fn rdma_alloc_commit_uobject(uobj: Uncommitted, _attrs: &AttrBundle) {
    commit(uobj);
}

/// Aborts an object that was begun; with `hw_obj_valid` its `destroy_object` is called first. Process context.
#[export(GPL, ns = "rdma_core")]
fn rdma_alloc_abort_uobject(
    uobj: Uncommitted,
    attrs: &AttrBundle,
    hw_obj_valid: bool,
    sleep: &MaySleep,
) {
    abort(uobj, hw_obj_valid, attrs, sleep);
}

/// Gives a new object the handle of another one, which is destroyed. The caller commits the new one, and puts the other one
/// with `UVERBS_LOOKUP_DESTROY`. Process context.
#[export(GPL, ns = "rdma_core")]
fn rdma_assign_uobject(
    to_uobj: Exclusive<'_>,
    new_uobj: &Uobject,
    attrs: &AttrBundle,
    sleep: &MaySleep,
) {
    if kernel::warn_on!(handle::swap(to_uobj.get(), new_uobj).is_err()) {
        return;
    }
    // If it cannot be destroyed, it stays with the other handle until the file is closed.
    let _ = destroy(to_uobj, RemoveReason::Destroy, attrs, sleep);
}

/// Looks up an object and locks it. Process context for objects with file descriptors; `disassociate_srcu` is held.
///
/// # Errors
///
/// `EINVAL` if the device has no such objects or the object is of another class; `ENOENT`, `EBADF` if there is none;
/// `EBUSY` if it is locked; `EIO` if the device was removed, except for `UVERBS_LOOKUP_DESTROY`.
#[export(GPL, ns = "rdma_core")]
fn rdma_lookup_get_uobject(
    obj: Kind<'_>,
    ufile: &UverbsFile,
    id: i64,
    mode: LookupMode,
    attrs: Option<&AttrBundle>,
) -> LookedUp {
    LookedUp(look_up(obj, ufile, id, mode, attrs))
}

/// Unlocks an object that was looked up, and drops its references.
#[export(GPL, ns = "rdma_core")]
fn rdma_lookup_put_uobject(uobj: FoundArg<'_>, mode: FoundMode<'_>) {
    uobj.locked(mode).put();
}

/// Destroys an object that was looked up with `UVERBS_LOOKUP_DESTROY`; the caller puts it. Process context.
///
/// # Errors
///
/// `EBUSY` if it is locked; those of the driver.
#[export(GPL, ns = "rdma_core")]
fn uobj_destroy(uobj: &Uobject, attrs: &AttrBundle, sleep: &MaySleep) -> Result {
    destroy_by_command(uobj, attrs, sleep)
}

/// Destroys the object of a handle, and returns it; the caller puts it. Process context.
///
/// # Errors
///
/// As for `rdma_lookup_get_uobject` and `uobj_destroy`.
#[export(GPL, ns = "rdma_core")]
fn __uobj_get_destroy(obj: Kind<'_>, id: u32, attrs: &AttrBundle, sleep: &MaySleep) -> LookedUp {
    LookedUp(get_destroyed(obj, id, attrs, sleep))
}

/// Destroys the object of a handle. Process context.
///
/// # Errors
///
/// As for `__uobj_get_destroy`.
#[export(GPL, ns = "rdma_core")]
fn __uobj_perform_destroy(obj: Kind<'_>, id: u32, attrs: &AttrBundle, sleep: &MaySleep) -> Result {
    get_destroyed(obj, id, attrs, sleep).map(drop)
}

/// Locks an object without waiting; see [`LookupMode`]. Any context.
///
/// # Errors
///
/// `EBUSY`.
#[export]
fn uverbs_try_lock_object(uobj: &Uobject, mode: LookupMode) -> Result {
    uobj.try_lock(mode)
}

/// Drops a reference of an object's memory. Any context.
#[export]
fn uverbs_uobject_put(uobject: Reference) {
    drop(uobject);
}

/// Acquires the object of an ioctl attribute: looks it up, or begins a new one. Process context.
///
/// # Errors
///
/// As for `rdma_lookup_get_uobject` and `rdma_alloc_begin_uobject`.
#[export(GPL, ns = "rdma_core")]
fn uverbs_get_uobject_from_file(
    object_id: u16,
    access: bindings::uverbs_obj_access,
    id: i64,
    attrs: &AttrBundle,
    sleep: &MaySleep,
) -> ErrPtr<ib_uobject> {
    let kind = match attrs.file().api_object(object_id) {
        _ if u32::from(object_id) == bindings::UVERBS_IDR_ANY_OBJECT => Kind::Any,
        Ok(kind) => Kind::Of(kind),
        Err(_) => Kind::Absent,
    };
    let mode = match access {
        bindings::UVERBS_ACCESS_READ => LookupMode::Read,
        bindings::UVERBS_ACCESS_WRITE => LookupMode::Write,
        bindings::UVERBS_ACCESS_DESTROY => LookupMode::Destroy,
        bindings::UVERBS_ACCESS_NEW => {
            return ErrPtr(Ok(UncommittedOrErr(begin(kind, attrs, sleep)).into_c()));
        }
        _ => return ErrPtr(Err(EOPNOTSUPP)),
    };
    ErrPtr(Ok(LookedUp(look_up(
        kind,
        attrs.file(),
        id,
        mode,
        Some(attrs),
    ))
    .into_c()))
}

/// Whether the current process has `CAP_NET_RAW` for the device of a command. False if the file has no context.
#[export]
fn rdma_uattrs_has_raw_cap(attrs: Const<'_, AttrBundle>) -> bool {
    file::has_raw_cap(attrs.file())
}

/// Puts back an object from `uverbs_get_uobject_from_file`, with the same access; null for one that was destroyed. With `commit_it` a
/// new object is committed, else it is aborted; with `hw_obj_valid` its `destroy_object` is called then. Process context.
#[export(GPL, ns = "rdma_core")]
fn uverbs_finalize_object(
    uobj: AcquiredArg<'_>,
    access: AcquiredFor<'_>,
    hw_obj_valid: bool,
    commit_it: bool,
    attrs: &AttrBundle,
    sleep: &MaySleep,
) {
    match uobj.acquired(access) {
        Ok(Some(Acquired::Found(found))) => found.put(),
        Ok(Some(Acquired::UncommittedOrErr(object))) if commit_it => commit(object),
        Ok(Some(Acquired::UncommittedOrErr(object))) => abort(object, hw_obj_valid, attrs, sleep),
        Ok(None) => {}
        Err(_) => {
            kernel::warn_on!(true);
        }
    }
}
