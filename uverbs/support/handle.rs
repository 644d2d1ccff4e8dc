// SPDX-License-Identifier: GPL-2.0

//! The type classes of objects: those with a handle (`uverbs_idr_class`), and those with a file descriptor (`uverbs_fd_class`).
//!
//! Each function is a step in the life of an object that differs between the two.
//!
//! C header: `include/rdma/uverbs_types.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings::{uverbs_obj_type_class, RDMACG_RESOURCE_HCA_OBJECT},
    error::EOPNOTSUPP,
    export::{export, Exported},
};
use rdma::{
    core::{
        command::UverbsFile,
        uobject::{ApiObject, LookupMode, RemoveReason},
        AttrBundle, Ucontext, Uobject,
    },
    MaySleep,
};
use rdma_uverbs::{
    fd::{Descriptor, FdType},
    handles::Handles,
    life::{self, Exclusive, Found, Reserved},
};

/// The type class of objects with a handle. Only its address is used.
#[export]
static uverbs_idr_class: Exported<uverbs_obj_type_class> = Exported(pin_init::zeroed());

/// The type class of objects with a file descriptor. Only its address is used.
#[export]
static uverbs_fd_class: Exported<uverbs_obj_type_class> = Exported(pin_init::zeroed());

/// The identifier of a class's objects.
enum Naming {
    Number,
    Descriptor,
}

fn naming(kind: &ApiObject) -> Result<Naming> {
    let class = kind.type_class();
    if core::ptr::eq(class, &uverbs_idr_class.0) {
        Ok(Naming::Number)
    } else if core::ptr::eq(class, &uverbs_fd_class.0) {
        Ok(Naming::Descriptor)
    } else {
        Err(EINVAL)
    }
}

/// Allocates an object in the context of a command, and reserves its handle or file descriptor.
pub(crate) fn begin(kind: &ApiObject, command: &AttrBundle, sleep: &MaySleep) -> Result<Reserved> {
    let naming = naming(kind)?;
    let device = command.context_device().ok_or(EINVAL)?;
    let object = life::allocate(kind, command, sleep)?;
    match naming {
        Naming::Number => {
            let object = object.with_handle(Handles::of(command.file()).reserve()?)?;
            object
                .cgroup()
                .try_charge(device, RDMACG_RESOURCE_HCA_OBJECT)?;
            Ok(object)
        }
        Naming::Descriptor => {
            let description = FdType::of(kind).ok_or(EIO)?;
            if kernel::warn_on!(!description.is_valid()) {
                return Err(EINVAL);
            }
            object.with_descriptor(Descriptor::reserve()?, description.new_file()?)
        }
    }
}

fn uncharge(object: &Uobject, context: Option<&Ucontext>) {
    if let Some(context) = context {
        object
            .cgroup()
            .uncharge(context.device(), RDMACG_RESOURCE_HCA_OBJECT);
    }
}

/// Frees the reserved handle or file descriptor of an object, and drops the object.
pub(crate) fn abort(object: Reserved) {
    if let Ok(Naming::Number) = naming(object.api_object()) {
        uncharge(&object, object.context());
    }
    drop(object);
}

/// Finds an object; by a file descriptor, only for reading.
///
/// # Errors
///
/// `EINVAL` for an identifier out of range, `ENOENT` or `EBADF` if there is none; `EOPNOTSUPP` for another mode of an object with a
/// file descriptor; `EIO` if the driver was removed.
pub(crate) fn find(
    kind: &ApiObject,
    file: &UverbsFile,
    id: i64,
    mode: LookupMode,
) -> Result<Found> {
    match naming(kind)? {
        Naming::Number => find_number(file, id),
        Naming::Descriptor => find_descriptor(kind, file, id, mode),
    }
}

/// Finds an object of any class by its handle.
pub(crate) fn find_number(file: &UverbsFile, id: i64) -> Result<Found> {
    let number = usize::try_from(id).map_err(|_| EINVAL)?;
    let object = Handles::of(file).find(number).ok_or(ENOENT)?;
    Ok(Found::numbered(object))
}

fn find_descriptor(
    kind: &ApiObject,
    device_file: &UverbsFile,
    id: i64,
    mode: LookupMode,
) -> Result<Found> {
    let descriptor = i32::try_from(id).map_err(|_| EINVAL)?;
    if mode != LookupMode::Read {
        return Err(EOPNOTSUPP);
    }
    let description = FdType::of(kind).ok_or(EIO)?;
    let (file, object) = description.find(descriptor as u32)?;
    if !core::ptr::eq(object.file(), device_file) {
        return Err(EBADF);
    }
    Ok(Found::of_file(file, object))
}

/// Calls `destroy_object` of an object's type.
///
/// # Errors
///
/// Those of the driver: then the object stays.
pub(crate) fn destroy(
    object: &Exclusive<'_>,
    why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    match naming(object.api_object())? {
        Naming::Number => {
            let is_there = !object.object().is_null();
            object.destroy_numbered(why, command, sleep)?;
            if is_there && why != RemoveReason::Abort {
                uncharge(object, object.context());
            }
        }
        Naming::Descriptor => {
            object.destroy_described(why, sleep)?;
            if why != RemoveReason::Abort {
                object.disown();
            }
        }
    }
    Ok(())
}

/// Frees the handle of an object that user space has destroyed.
pub(crate) fn remove(object: &Uobject) {
    if let Ok(Naming::Number) = naming(object.api_object()) {
        drop(Handles::of(object.file()).free(object.id()));
    }
}

/// Exchanges the handles of a committed object and of one that is not committed and remains so.
///
/// # Errors
///
/// `EINVAL` if they are not of one class with handles.
pub(crate) fn swap(old: &Uobject, new: &Uobject) -> Result {
    let Naming::Number = naming(old.api_object())? else {
        return Err(EINVAL);
    };
    if !core::ptr::eq(old.api_object(), new.api_object()) {
        return Err(EINVAL);
    }
    let handles = Handles::of(old.file());
    let moved = handles.withdraw(old).ok_or(EINVAL)?;
    let (of_old, of_new) = (old.id(), new.id());
    old.set_id(of_new);
    new.set_id(of_old);
    handles.publish(moved);
    Ok(())
}
