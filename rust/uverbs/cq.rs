// SPDX-License-Identifier: GPL-2.0

//! Completion queues of user space: `struct ib_ucq_object`.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use core::ptr::{self, null_mut};

use kernel::{ffi::c_void, prelude::*, sync::aref::ARef};
use rdma::{
    core::{
        cq::{CqHandlers, CqInit},
        object::{Fresh, Owned},
        uobject::RemoveReason,
        AttrBundle, Cq,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{
    attrs::plain,
    class::{Class, Destroying},
    destroy::destroy_by,
    event::{AsyncFile, EventFile, Report, Source},
    new::NewObject,
    uevent::{event_object, on_cq_event, EventObject},
    verbs::track,
};

plain! { bindings::ib_uverbs_destroy_cq_resp }

/// The memory of a completion queue: `struct ib_ucq_object`.
#[repr(C)]
pub struct CqObject {
    event: EventObject,
    completions: Source,
}

event_object! { CqObject }

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Cq {
    const ID: u16 = bindings::UVERBS_OBJECT_CQ as u16;
    type Memory = CqObject;
}

impl CqObject {
    /// Starts reporting events and completions.
    fn open(&self, channel: Option<ARef<EventFile>>, file: Option<ARef<AsyncFile>>) {
        self.completions.open(channel);
        self.event.open(file);
    }

    /// Stops reporting.
    fn close(&self) {
        self.completions.close();
        self.event.close();
    }

    /// The number of completion events that user space has read.
    #[inline]
    pub fn completions_reported(&self) -> u32 {
        self.completions.reported()
    }
}

/// The completion handler that drivers call (`comp_handler`): a completion queue has completions.
///
/// # Safety
///
/// `cq` is a queue of user space that is valid during the call. Any context.
unsafe extern "C" fn on_completion(cq: *mut bindings::ib_cq, _context: *mut c_void) {
    // SAFETY: By the safety requirements; the object is valid as long as the queue.
    let object = unsafe { &*(*cq).uobject.cast::<CqObject>() };
    let handle = object.uobject().user_handle();
    object.completions.report(Report::Completion(handle));
}

/// The attributes of a new completion queue.
pub struct CqSpec {
    /// The number of completion queue entries, not 0.
    pub cqe: u32,
    /// The completion vector, less than the number of the device's.
    pub comp_vector: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub flags: u32,
    /// The identifier of user space, which events carry.
    pub user_handle: u64,
    /// The channel that reports completion events.
    pub channel: Option<ARef<EventFile>>,
    /// The file that reports asynchronous events.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// Creates a completion queue for an object that is being created.
///
/// # Errors
///
/// `EINVAL` without a context, `ENOMEM`, and those of the driver. On an error no queue is left.
pub fn create(
    command: &AttrBundle,
    object: &NewObject<'_, Cq>,
    spec: CqSpec,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    let init = bindings::ib_cq_init_attr {
        cqe: spec.cqe,
        comp_vector: spec.comp_vector,
        flags: spec.flags,
    };
    // The context only shows a driver whether the program gets completion events.
    let context = spec.channel.as_deref().map_or(null_mut(), |channel| {
        ptr::from_ref(channel).cast_mut().cast()
    });
    // SAFETY: The handlers use the object of the queue, which is set below, and not the context. A driver's object completes the object
    // that it is created for, and is destroyed before it.
    let handlers = unsafe { CqHandlers::from_raw(Some(on_completion), Some(on_cq_event), context) };
    let mut cq = Fresh::new_cq(object.context()?.device(), handlers, sleep)?;
    // SAFETY: By the invariants of `Fresh` only this function uses the memory.
    unsafe { (*cq.members().as_raw()).uobject = object.uobject().as_raw().cast() };
    object.uobject().set_user_handle(spec.user_handle);
    object.open(spec.channel, spec.async_file);
    track::set_owner(&mut cq);
    // SAFETY: A view is a transparent wrapper; drivers do not change it.
    let init = unsafe { &*(&raw const init).cast::<CqInit>() };
    let cq = cq
        .driver_create_user(init, command, sleep)
        .map_err(|failed| {
            object.close();
            track::discard(failed)
        })?;
    track::add(&cq);
    Ok(cq)
}

/// Destroys a completion queue.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn destroy(
    object: Destroying<'_, Cq>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |cq| bindings::ib_destroy_cq_user(cq, udata))? };
    object.close();
    Ok(())
}
