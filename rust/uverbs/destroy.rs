// SPDX-License-Identifier: GPL-2.0

//! How objects of drivers are destroyed for objects of user space: for the `destroy_object` of their types, which has the
//! object for itself. Where destroying fails, everything stays as it was.

use core::ptr::{null_mut, NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*};
use kernel_ext::door::{view_of, View};
use rdma::{
    core::{
        object::{Failed, Owned, Tracked},
        Ah, AttrBundle, Counters, Dm, Dmah, Flow, FlowAction, Mr, Mw, Pd, RwqIndTable, Uobject,
        Xrcd,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{class::Class, uevent::XrcdObject};

/// Takes the driver's object out of an object of user space.
fn take<T: Class + View>(object: &Uobject) -> Result<Owned<T>> {
    let is_of_class = object.api_object().id() == T::ID.into();
    let raw = NonNull::new(object.object().cast::<T::C>()).filter(|_| is_of_class);
    // SAFETY: It has none from now on.
    let taken = raw.map(|raw| unsafe {
        object.set_object(null_mut());
        Owned::from_raw(raw)
    });
    taken.ok_or(EINVAL)
}

/// Gives it back.
fn put_back<T: Class + View>(object: &Uobject, owned: Owned<T>) {
    // SAFETY: It was taken out.
    unsafe { object.set_object(owned.into_raw().cast()) };
}

/// Destroys the driver's object with a method.
pub(crate) fn destroy<T: Class + View, D>(
    object: &Uobject,
    method: impl FnOnce(Owned<T>) -> Result<D, Failed<Owned<T>>>,
) -> Result<D> {
    method(take(object)?).map_err(|failed| {
        put_back(object, failed.object);
        failed.error
    })
}

/// Destroys the driver's object with a function of ib_core.
///
/// # Safety
///
/// When `function` returns 0 the object is gone.
pub(crate) unsafe fn destroy_by<T: Class + View>(
    object: &Uobject,
    function: impl FnOnce(*mut T::C) -> c_int,
) -> Result {
    let owned = take::<T>(object)?;
    let raw = owned.into_raw();
    let destroyed = to_result(function(raw));
    if destroyed.is_err() {
        // SAFETY: It was taken out, and is still there.
        unsafe { object.set_object(raw.cast()) };
    }
    destroyed
}

/// What the object of the driver is, while it is there.
///
/// # Errors
///
/// `EINVAL` if it is not, or of another class.
fn driver_object<T: Class + View>(object: &Uobject) -> Result<&T> {
    let is_of_class = object.api_object().id() == T::ID.into();
    // SAFETY: The object is of the class, and has what its class says; the caller has it for itself.
    let found = unsafe { object.object().cast::<T>().as_ref() };
    found.filter(|_| is_of_class).ok_or(EINVAL)
}

/// Deallocates a protection domain.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn pd(object: &Uobject, command: &AttrBundle, _sleep: &MaySleep) -> Result {
    if driver_object::<Pd>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; it is gone if the function succeeds.
    unsafe { destroy_by::<Pd>(object, |pd| bindings::ib_dealloc_pd_user(pd, udata)) }
}

/// Destroys an address handle.
///
/// # Errors
///
/// Those of the driver.
pub fn ah(object: &Uobject, command: &AttrBundle, _sleep: &MaySleep) -> Result {
    const SLEEPABLE: u32 = bindings::RDMA_DESTROY_AH_SLEEPABLE;
    let udata = command.driver_udata().as_raw();
    // SAFETY: As above.
    unsafe {
        destroy_by::<Ah>(object, |ah| {
            bindings::rdma_destroy_ah_user(ah, SLEEPABLE, udata)
        })
    }
}

/// Deregisters a memory region.
///
/// # Errors
///
/// Those of the driver.
pub fn mr(object: &Uobject, command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: As above.
    unsafe { destroy_by::<Mr>(object, |mr| bindings::ib_dereg_mr_user(mr, udata)) }
}

/// Deallocates a memory window.
///
/// # Errors
///
/// Those of the driver.
pub fn mw(object: &Uobject, sleep: &MaySleep) -> Result {
    let memory = destroy::<Mw, _>(object, |mw| mw.driver_dealloc(sleep))?;
    // SAFETY: The window, which was counted when it was made, is destroyed.
    unsafe { memory.pd().uses().dec() };
    Ok(())
}

/// Destroys a table of work queues.
///
/// # Errors
///
/// `EBUSY` while a queue pair uses it, and those of the driver.
pub fn rwq_ind_table(object: &Uobject, sleep: &MaySleep) -> Result {
    if driver_object::<RwqIndTable>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy::<RwqIndTable, _>(object, |table| table.driver_destroy(sleep)).map(drop)
}

view_of! {
    /// A flow of user space: `struct ib_uflow_object`.
    pub struct FlowObject(bindings::ib_uflow_object);
}

impl FlowObject {
    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: The structure begins with that.
        unsafe { &*self.as_raw().cast() }
    }
}

/// Destroys a flow.
///
/// # Errors
///
/// Those of the driver.
pub fn flow(memory: &FlowObject, sleep: &MaySleep) -> Result {
    let object = memory.uobject();
    let qp = driver_object::<Flow>(object)?
        .qp()
        .map(rdma::core::Qp::uses);
    destroy::<Flow, _>(object, |flow| flow.driver_destroy(sleep))?;
    if let Some(uses) = qp {
        // SAFETY: The flow, which was counted when it was made, is destroyed.
        unsafe { uses.dec() };
    }
    // SAFETY: What the member refers to was allocated for the flow, or is null.
    unsafe {
        let resources = core::mem::replace(&mut (*memory.as_raw()).resources, null_mut());
        bindings::ib_uverbs_flow_resources_free(resources);
    }
    Ok(())
}

/// Gives up an XRC domain. `dealloc` does so: others may have the same domain.
///
/// # Errors
///
/// `EBUSY` while objects of the file use it, and those of `dealloc`.
pub fn xrcd(
    object: &XrcdObject,
    dealloc: impl FnOnce(Owned<Xrcd>) -> Result<(), Failed<Owned<Xrcd>>>,
) -> Result {
    if object.is_used() {
        return Err(EBUSY);
    }
    destroy(object.uobject(), dealloc)
}

/// Destroys an action of flows.
///
/// # Errors
///
/// `EBUSY` while a flow uses it, and those of the driver.
pub fn flow_action(object: &Uobject, sleep: &MaySleep) -> Result {
    if driver_object::<FlowAction>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy::<FlowAction, _>(object, |action| action.driver_destroy(sleep))
}

/// Destroys counters of flows.
///
/// # Errors
///
/// `EBUSY` while a flow uses them, and those of the driver.
pub fn counters(object: &Uobject, sleep: &MaySleep) -> Result {
    if driver_object::<Counters>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy::<Counters, _>(object, |counters| counters.driver_destroy(sleep)).map(drop)
}

/// Gives memory of the device back.
///
/// # Errors
///
/// `EBUSY` while a region is of it, and those of the driver.
pub fn dm(object: &Uobject, command: &AttrBundle, sleep: &MaySleep) -> Result {
    if driver_object::<Dm>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    destroy::<Dm, _>(object, |dm| dm.driver_dealloc(command, sleep))
}

/// Forgets hints for DMA.
///
/// # Errors
///
/// `EBUSY` while a region has them, and those of the driver.
pub fn dmah(object: &Uobject, command: &AttrBundle, sleep: &MaySleep) -> Result {
    if driver_object::<Dmah>(object)?.uses().is_used() {
        return Err(EBUSY);
    }
    let memory = destroy::<Dmah, _>(object, |dmah| {
        // SAFETY: The object is listed; nobody has a reference of its entry afterwards.
        unsafe { bindings::rdma_restrack_begin_del(dmah.res().as_raw()) };
        dmah.driver_dealloc(command, sleep).inspect_err(|failed| {
            // SAFETY: The object is there, and was taken out of the list above.
            unsafe { bindings::rdma_restrack_abort_del(failed.object.res().as_raw()) };
        })
    })?;
    // SAFETY: The object was taken out of the list; its memory is still there.
    unsafe { bindings::rdma_restrack_commit_del(memory.res().as_raw()) };
    Ok(())
}
