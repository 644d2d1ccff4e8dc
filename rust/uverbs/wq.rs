// SPDX-License-Identifier: GPL-2.0

//! Work queues of user space: `struct ib_uwq_object`.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use kernel::{prelude::*, sync::aref::ARef};
use rdma::{
    core::{object::Owned, uobject::RemoveReason, AttrBundle, Cq, Pd, Wq},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{
    class::{Class, Destroying},
    destroy::destroy_by,
    event::AsyncFile,
    new::NewObject,
    uevent::{event_object, on_wq_event, EventObject},
};

/// The memory of a work queue: `struct ib_uwq_object`.
#[repr(C)]
pub struct WqObject {
    event: EventObject,
}

event_object! { WqObject }

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Wq {
    const ID: u16 = bindings::UVERBS_OBJECT_WQ as u16;
    type Memory = WqObject;
}

/// The attributes of a new work queue.
pub struct WqSpec {
    /// `enum ib_wq_type`.
    pub kind: u32,
    /// The largest number of outstanding requests.
    pub max_wr: u32,
    /// The largest number of SGEs of a request.
    pub max_sge: u32,
    /// `enum ib_uverbs_wq_flags`.
    pub create_flags: u32,
    /// The identifier of user space, which events carry.
    pub user_handle: u64,
    /// The file that reports asynchronous events.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// A new work queue, with its actual attributes.
pub struct NewWq {
    /// The queue.
    pub wq: Owned<Wq>,
    /// The largest number of outstanding requests.
    pub max_wr: u32,
    /// The largest number of SGEs of a request.
    pub max_sge: u32,
    /// Its number.
    pub number: u32,
}

/// Creates a work queue for an object that is being created.
///
/// # Errors
///
/// Those of the driver. On an error no queue is left.
pub fn create(
    command: &AttrBundle,
    object: &NewObject<'_, Wq>,
    pd: &Pd,
    cq: &Cq,
    spec: WqSpec,
    sleep: &MaySleep,
) -> Result<NewWq> {
    let mut init = bindings::ib_wq_init_attr::zeroed();
    init.wq_context = command.file().as_raw().cast();
    init.wq_type = spec.kind;
    init.max_wr = spec.max_wr;
    init.max_sge = spec.max_sge;
    init.event_handler = Some(on_wq_event);
    init.create_flags = spec.create_flags;
    object.uobject().set_user_handle(spec.user_handle);
    object.open(spec.async_file);
    let wq = pd
        .driver_create_user_wq(&mut init, cq, command.driver_udata(), sleep)
        .inspect_err(|_| object.close())?;
    // SAFETY: The driver has just created the queue, and only this thread and the driver use it.
    let number = unsafe {
        let raw = wq.as_raw();
        (*raw).wq_type = init.wq_type;
        (*raw).wq_context = init.wq_context;
        (*raw).event_handler = init.event_handler;
        (*raw).uobject = object.uobject().as_raw().cast();
        (*raw).wq_num
    };
    Ok(NewWq {
        wq,
        max_wr: init.max_wr,
        max_sge: init.max_sge,
        number,
    })
}

/// Destroys a work queue.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn destroy(
    object: Destroying<'_, Wq>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |wq| bindings::ib_destroy_wq_user(wq, udata))? };
    object.close();
    Ok(())
}
