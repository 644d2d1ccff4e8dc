// SPDX-License-Identifier: GPL-2.0

//! Completion queues of user space.

use core::ptr::null_mut;

use kernel::{prelude::*, sync::aref::ARef};
use rdma::{
    core::{
        cq::{CqHandlers, CqInit},
        object::{Fresh, Owned},
        AttrBundle, Cq, Device,
    },
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{
    attrs::plain,
    destroy::destroy_by,
    event::{AsyncFile, EventFile},
    uevent::{on_completion, on_cq_event, CqObject},
    verbs::track,
};

plain! { bindings::ib_uverbs_destroy_cq_resp }

/// What a completion queue is to be like.
pub struct CqSpec {
    /// How many completions it has room for, not 0.
    pub cqe: u32,
    /// The completion vector, one of the device's.
    pub comp_vector: u32,
    /// `enum ib_uverbs_ex_create_cq_flags`.
    pub flags: u32,
    /// What user space calls it.
    pub user_handle: u64,
    /// Where completions are announced.
    pub channel: Option<ARef<EventFile>>,
    /// Where events are reported.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// Makes a completion queue for an object that is being made.
///
/// # Errors
///
/// `ENOMEM`, and those of the driver: then nothing is left.
pub fn create(
    command: &AttrBundle,
    object: &CqObject,
    device: &Device,
    spec: CqSpec,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    let init = bindings::ib_cq_init_attr {
        cqe: spec.cqe,
        comp_vector: spec.comp_vector,
        flags: spec.flags,
    };
    let handlers = CqHandlers {
        completion: Some(on_completion),
        event: Some(on_cq_event),
        context: null_mut(),
    };
    let cq = Fresh::new_cq(device, handlers, sleep)?;
    // SAFETY: The memory of a `Fresh` is ours alone.
    unsafe { (*cq.as_raw()).uobject = object.uobject().as_raw().cast() };
    object.uobject().set_user_handle(spec.user_handle);
    object.open(spec.channel, spec.async_file);
    track::begin(&cq, bindings::RDMA_RESTRACK_CQ);
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

/// Destroys the completion queue of an object. For the `destroy_object` of the class.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn destroy(object: &CqObject, command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; it is gone if the function succeeds.
    unsafe {
        destroy_by::<Cq>(object.uobject(), |cq| {
            bindings::ib_destroy_cq_user(cq, udata)
        })?
    };
    object.close();
    Ok(())
}
