// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues of user space: `struct ib_usrq_object`.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use kernel::{error::from_err_ptr, prelude::*, sync::aref::ARef};
use rdma::{
    core::{object::Owned, uobject::RemoveReason, AttrBundle, Cq, Pd, Srq},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{
    attrs::plain,
    class::{Class, Destroying},
    destroy::destroy_by,
    event::AsyncFile,
    new::NewObject,
    uevent::{event_object, on_srq_event, EventObject},
    xrcd::{XrcdLink, XrcdObject},
};

plain! { bindings::ib_uverbs_destroy_srq_resp }

/// The memory of a shared receive queue: `struct ib_usrq_object`.
#[repr(C)]
pub struct SrqObject {
    event: EventObject,
    xrcd: XrcdLink,
}

event_object! { SrqObject }

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Srq {
    const ID: u16 = bindings::UVERBS_OBJECT_SRQ as u16;
    type Memory = SrqObject;
}

impl SrqObject {
    /// Stops reporting, and ends the use of an XRC domain.
    fn close(&self) {
        self.xrcd.clear();
        self.event.close();
    }
}

/// The type of a shared receive queue: `enum ib_srq_type`.
pub enum SrqKind<'a> {
    /// `IB_SRQT_BASIC`.
    Basic,
    /// `IB_SRQT_XRC`: the completion queue, and the XRC domain.
    Xrc(&'a Cq, &'a XrcdObject),
    /// `IB_SRQT_TM`: the completion queue, and the largest number of tags.
    TagMatching(&'a Cq, u32),
    /// Another type, which the driver may support.
    Other(u32),
}

/// The attributes of a new shared receive queue.
pub struct SrqSpec<'a> {
    /// The type.
    pub kind: SrqKind<'a>,
    /// The largest number of outstanding requests.
    pub max_wr: u32,
    /// The largest number of SGEs of a request.
    pub max_sge: u32,
    /// The limit below which `IB_EVENT_SRQ_LIMIT_REACHED` is reported.
    pub limit: u32,
    /// The identifier of user space, which events carry.
    pub user_handle: u64,
    /// The file that reports asynchronous events.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// A new shared receive queue, with its actual attributes.
pub struct NewSrq {
    /// The queue.
    pub srq: Owned<Srq>,
    /// The largest number of outstanding requests.
    pub max_wr: u32,
    /// The largest number of SGEs of a request.
    pub max_sge: u32,
    /// The SRQ number of an `IB_SRQT_XRC` queue.
    pub number: Option<u32>,
}

/// Creates a shared receive queue for an object that is being created.
///
/// # Errors
///
/// `EINVAL` for an XRC domain that was destroyed, and those of the driver. On an error no queue is left.
pub fn create(
    command: &AttrBundle,
    object: &NewObject<'_, Srq>,
    pd: &Pd,
    spec: SrqSpec<'_>,
    _sleep: &MaySleep,
) -> Result<NewSrq> {
    let mut init = bindings::ib_srq_init_attr::zeroed();
    init.event_handler = Some(on_srq_event);
    init.attr = bindings::ib_srq_attr {
        max_wr: spec.max_wr,
        max_sge: spec.max_sge,
        srq_limit: spec.limit,
    };
    init.srq_type = bindings::IB_SRQT_BASIC;
    let is_xrc = match spec.kind {
        SrqKind::Basic => false,
        SrqKind::Xrc(cq, xrcd) => {
            let raw = xrcd.uobject().object().cast::<bindings::ib_xrcd>();
            if raw.is_null() {
                return Err(EINVAL);
            }
            init.srq_type = bindings::IB_SRQT_XRC;
            init.ext.cq = cq.as_raw();
            init.ext.__bindgen_anon_1.xrc.xrcd = raw;
            object.xrcd.set(xrcd);
            true
        }
        SrqKind::TagMatching(cq, max_num_tags) => {
            init.srq_type = bindings::IB_SRQT_TM;
            init.ext.cq = cq.as_raw();
            init.ext.__bindgen_anon_1.tag_matching.max_num_tags = max_num_tags;
            false
        }
        SrqKind::Other(kind) => {
            init.srq_type = kind;
            false
        }
    };
    object.uobject().set_user_handle(spec.user_handle);
    object.event.open(spec.async_file);
    let udata = command.driver_udata().as_raw();
    let user = object.uobject().as_raw().cast();
    // SAFETY: All structures are valid, and the type selects the members of the attributes.
    let made = unsafe { bindings::ib_create_srq_user(pd.as_raw(), &mut init, user, udata) };
    let raw = from_err_ptr(made)
        .and_then(|raw| core::ptr::NonNull::new(raw).ok_or(EINVAL))
        .inspect_err(|_| object.close())?;
    // SAFETY: The function has created the queue for this function; the type selects the member of the
    // union.
    let (srq, number) = unsafe {
        let number = is_xrc.then(|| (*raw.as_ptr()).ext.__bindgen_anon_1.xrc.srq_num);
        (Owned::from_raw(raw), number)
    };
    Ok(NewSrq {
        srq,
        max_wr: init.attr.max_wr,
        max_sge: init.attr.max_sge,
        number,
    })
}

/// Destroys a shared receive queue.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver.
pub fn destroy(
    object: Destroying<'_, Srq>,
    _why: RemoveReason,
    command: &AttrBundle,
    _sleep: &MaySleep,
) -> Result {
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |srq| bindings::ib_destroy_srq_user(srq, udata))? };
    object.close();
    Ok(())
}
