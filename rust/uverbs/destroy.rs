// SPDX-License-Identifier: GPL-2.0

//! Destroying the driver's object of a user-space object: the `destroy_object` functions of the classes. When one fails, the
//! object stays as it was.
//!
//! C header: `include/rdma/uverbs_types.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*};
use kernel_ext::entry::View;
use rdma::{
    core::{
        object::{Failed, Owned, Tracked},
        uobject::RemoveReason,
        Ah, AttrBundle, Counters, Dm, Dmah, FlowAction, Mr, Mw, Pd, RwqIndTable,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::class::{Class, Destroying};

/// Takes the driver's object out of an object that is being destroyed.
fn take<T: Class + View>(object: &Destroying<'_, T>) -> Result<Owned<T>> {
    let object = object.uobject();
    let raw = NonNull::new(object.object().cast::<T::C>()).ok_or(EINVAL)?;
    // SAFETY: The `object` of an object of the class is a `T` that it owns; the ownership passes to the result.
    unsafe {
        object.set_object(null_mut());
        Ok(Owned::from_raw(raw))
    }
}

/// Gives the driver's object back.
fn put_back<T: Class + View>(object: &Destroying<'_, T>, raw: *mut T::C) {
    // SAFETY: `take` has removed it from this object, and it was not destroyed.
    unsafe { object.uobject().set_object(raw.cast()) };
}

/// Destroys the driver's object with a method.
pub(crate) fn destroy<T: Class + View, D>(
    object: &Destroying<'_, T>,
    method: impl FnOnce(Owned<T>) -> Result<D, Failed<Owned<T>>>,
) -> Result<D> {
    method(take(object)?).map_err(|failed| {
        put_back(object, failed.object.into_raw());
        failed.error
    })
}

/// Destroys the driver's object with a function of ib_core.
///
/// # Safety
///
/// When `function` returns 0 it has destroyed the object.
pub(crate) unsafe fn destroy_by<T: Class + View>(
    object: &Destroying<'_, T>,
    function: impl FnOnce(*mut T::C) -> c_int,
) -> Result {
    let raw = take(object)?.into_raw();
    to_result(function(raw)).inspect_err(|_| put_back(object, raw))
}

/// The driver's object, unless it was destroyed.
///
/// # Errors
///
/// `EINVAL` if it was destroyed.
pub(crate) fn driver_object<'a, T: Class + View>(object: &'a Destroying<'_, T>) -> Result<&'a T> {
    // SAFETY: The `object` of an object of the class is null or a `T`; a view is a transparent wrapper.
    unsafe { object.uobject().object().cast::<T>().as_ref() }.ok_or(EINVAL)
}

/// Deallocates a protection domain.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn pd(
    object: Destroying<'_, Pd>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |pd| bindings::ib_dealloc_pd_user(pd, udata)) }
}

/// Destroys an address handle.
///
/// # Errors
///
/// Those of the driver.
pub fn ah(
    object: Destroying<'_, Ah>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    const SLEEPABLE: u32 = bindings::RDMA_DESTROY_AH_SLEEPABLE;
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe {
        destroy_by(&object, |ah| {
            bindings::rdma_destroy_ah_user(ah, SLEEPABLE, udata)
        })
    }
}

/// Deregisters a memory region.
///
/// # Errors
///
/// Those of the driver.
pub fn mr(
    object: Destroying<'_, Mr>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |mr| bindings::ib_dereg_mr_user(mr, udata)) }
}

/// Deallocates a memory window.
///
/// # Errors
///
/// Those of the driver.
pub fn mw(
    object: Destroying<'_, Mw>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    let memory = destroy(&object, |mw| mw.driver_dealloc(sleep))?;
    // SAFETY: The window, which was counted when it was created, is destroyed.
    unsafe { memory.pd().uses().dec() };
    Ok(())
}

/// Destroys an indirection table of work queues.
///
/// # Errors
///
/// `EBUSY` while a queue pair uses it, and those of the driver.
pub fn rwq_ind_table(
    object: Destroying<'_, RwqIndTable>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy(&object, |table| table.driver_destroy(sleep)).map(drop)
}

/// Destroys a flow action.
///
/// # Errors
///
/// `EBUSY` while a flow uses it, and those of the driver.
pub fn flow_action(
    object: Destroying<'_, FlowAction>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy(&object, |action| action.driver_destroy(sleep))
}

/// Destroys flow counters.
///
/// # Errors
///
/// `EBUSY` while a flow uses them, and those of the driver.
pub fn counters(
    object: Destroying<'_, Counters>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy(&object, |counters| counters.driver_destroy(sleep)).map(drop)
}

/// Frees device memory.
///
/// # Errors
///
/// `EBUSY` while a region uses it, and those of the driver.
pub fn dm(
    object: Destroying<'_, Dm>,
    _why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy(&object, |dm| dm.driver_dealloc(command, sleep))
}

/// Deallocates a DMA handle.
///
/// # Errors
///
/// `EBUSY` while a region uses it, and those of the driver.
pub fn dmah(
    object: Destroying<'_, Dmah>,
    _why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    if driver_object(&object)?.uses().is_used() {
        return Err(EBUSY);
    }
    let memory = destroy(&object, |dmah| {
        // SAFETY: The object is listed; the function waits until its entry has no references.
        unsafe { bindings::rdma_restrack_begin_del(dmah.res().as_raw()) };
        dmah.driver_dealloc(command, sleep).inspect_err(|failed| {
            // SAFETY: The object is valid, and `rdma_restrack_begin_del` has removed it from the list.
            unsafe { bindings::rdma_restrack_abort_del(failed.object.res().as_raw()) };
        })
    })?;
    // SAFETY: `rdma_restrack_begin_del` has removed the object from the list; its memory is not freed yet.
    unsafe { bindings::rdma_restrack_commit_del(memory.res().as_raw()) };
    Ok(())
}
