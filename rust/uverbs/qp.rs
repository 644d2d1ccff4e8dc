// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of user space: `struct ib_uqp_object`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `QpObject::groups` | the multicast groups that the queue pair has joined | process context | what drivers take |
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use core::ptr::{null_mut, NonNull};

use kernel::{
    error::from_err_ptr,
    prelude::*,
    sync::{aref::ARef, Mutex},
};
use kernel_ext::sync::new_mutex;
use rdma::{
    core::{
        object::Owned, uobject::RemoveReason, AttrBundle, Cq, Device, Pd, Qp, RwqIndTable, Srq,
        Xrcd,
    },
    Gid, MaySleep,
};
use rdma_bindings::{self as bindings, ib_uverbs_destroy_qp_resp, ib_uverbs_qp_cap};

use crate::{
    attrs::plain,
    class::{Class, Destroying},
    destroy::{destroy_by, driver_object},
    event::AsyncFile,
    init_once::InitOnce,
    lookup::ReadLocked,
    new::NewObject,
    uevent::{event_object, on_qp_event, EventObject},
    verbs::{detach_mcast, has_raw_cap},
    xrcd::{XrcdLink, XrcdObject},
};

plain! { ib_uverbs_qp_cap ib_uverbs_destroy_qp_resp }

/// The memory of a queue pair: `struct ib_uqp_object`.
#[repr(C)]
pub struct QpObject {
    event: EventObject,
    xrcd: XrcdLink,
    /// Initialised by [`Self::open`], and empty after [`Self::close`].
    groups: InitOnce<Mutex<Groups>>,
}

event_object! { QpObject }

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Qp {
    const ID: u16 = bindings::UVERBS_OBJECT_QP as u16;
    type Memory = QpObject;
}

/// A multicast group and the LID that it was joined with.
pub type Group = (Gid, u16);

/// The multicast groups that a queue pair has joined.
pub type Groups = KVec<Group>;

impl QpObject {
    /// Starts reporting events, without groups.
    fn open(&self, file: Option<ARef<AsyncFile>>) {
        let groups = new_mutex!(Groups::new(), "QpObject::groups");
        self.groups.init(groups, |_| {});
        self.event.open(file);
    }

    /// Stops reporting, ends the use of an XRC domain, and frees the memory of the groups.
    fn close(&self, sleep: &MaySleep) {
        self.xrcd.clear();
        drop(self.take_groups(sleep));
        self.event.close();
    }

    /// Calls `f` with the groups locked.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not created yet; those of `f`.
    pub fn with_groups<R>(
        &self,
        _sleep: &MaySleep,
        f: impl FnOnce(&mut Groups) -> Result<R>,
    ) -> Result<R> {
        f(&mut self.groups.get().ok_or(EINVAL)?.lock())
    }

    fn take_groups(&self, sleep: &MaySleep) -> Groups {
        self.with_groups(sleep, |groups| Ok(core::mem::take(groups)))
            .unwrap_or_default()
    }

    /// Leaves all groups.
    fn leave_groups(&self, qp: &Qp, sleep: &MaySleep) {
        for (gid, lid) in self.take_groups(sleep) {
            // The groups are freed with the queue pair even if the driver fails.
            let _ = detach_mcast(qp, gid, lid, sleep);
        }
    }
}

/// The domain of a queue pair.
#[derive(Clone, Copy)]
pub enum QpDomain<'a> {
    /// A protection domain.
    Pd(&'a Pd),
    /// An XRC domain, for an XRC target queue pair.
    Xrcd(&'a XrcdObject),
}

/// The attributes of a new queue pair.
pub struct QpSpec<'a> {
    /// `enum ib_qp_type`.
    pub kind: u32,
    /// The domain.
    pub domain: QpDomain<'a>,
    /// The completion queue of sends.
    pub send_cq: Option<&'a Cq>,
    /// The completion queue of receives.
    pub recv_cq: Option<&'a Cq>,
    /// The shared receive queue.
    pub srq: Option<&'a Srq>,
    /// The receive work queue indirection table.
    pub rwq_ind_table: Option<&'a RwqIndTable>,
    /// The capabilities.
    pub cap: ib_uverbs_qp_cap,
    /// `enum ib_qp_create_flags`.
    pub create_flags: u32,
    /// The source QP number, for `IB_QP_CREATE_SOURCE_QPN`.
    pub source_qpn: u32,
    /// Whether each send request generates a completion.
    pub sq_sig_all: bool,
    /// The identifier of user space, which events carry.
    pub user_handle: u64,
    /// The file that reports asynchronous events.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// A new queue pair, with its actual capabilities.
pub struct NewQp {
    /// The queue pair.
    pub qp: Owned<Qp>,
    /// The capabilities.
    pub cap: ib_uverbs_qp_cap,
}

fn xrcd_of(object: &XrcdObject) -> Result<&Xrcd> {
    // SAFETY: The object is of the class, and locked by the command that looked it up; a view is a transparent wrapper.
    unsafe { object.uobject().object().cast::<Xrcd>().as_ref() }.ok_or(EINVAL)
}

fn init_attr(spec: &QpSpec<'_>) -> bindings::ib_qp_init_attr {
    let mut init = bindings::ib_qp_init_attr::zeroed();
    init.event_handler = Some(on_qp_event);
    init.send_cq = spec.send_cq.map_or(null_mut(), Cq::as_raw);
    init.recv_cq = spec.recv_cq.map_or(null_mut(), Cq::as_raw);
    init.srq = spec.srq.map_or(null_mut(), Srq::as_raw);
    init.rwq_ind_tbl = spec.rwq_ind_table.map_or(null_mut(), RwqIndTable::as_raw);
    init.sq_sig_type = if spec.sq_sig_all {
        bindings::IB_SIGNAL_ALL_WR
    } else {
        bindings::IB_SIGNAL_REQ_WR
    };
    init.qp_type = spec.kind;
    init.create_flags = spec.create_flags;
    init.source_qpn = spec.source_qpn;
    init.cap.max_send_wr = spec.cap.max_send_wr;
    init.cap.max_recv_wr = spec.cap.max_recv_wr;
    init.cap.max_send_sge = spec.cap.max_send_sge;
    init.cap.max_recv_sge = spec.cap.max_recv_sge;
    init.cap.max_inline_data = spec.cap.max_inline_data;
    init
}

/// Creates a queue pair for an object that is being created.
///
/// # Errors
///
/// `EPERM` for a source QP number without `CAP_NET_RAW`; `EINVAL` for an XRC domain that was destroyed, and those of ib_core and
/// of the driver. On an error no queue pair is left.
pub fn create(
    command: &AttrBundle,
    object: &NewObject<'_, Qp>,
    spec: QpSpec<'_>,
    sleep: &MaySleep,
) -> Result<NewQp> {
    let sends_as_other = spec.create_flags & bindings::IB_QP_CREATE_SOURCE_QPN as u32 != 0;
    if sends_as_other && !has_raw_cap(command) {
        return Err(EPERM);
    }
    let mut init = init_attr(&spec);
    let (device, pd): (&Device, _) = match spec.domain {
        QpDomain::Pd(pd) => (pd.device(), pd.as_raw()),
        QpDomain::Xrcd(object) => {
            let xrcd = xrcd_of(object)?;
            init.xrcd = xrcd.as_raw();
            (xrcd.device(), null_mut())
        }
    };
    object.uobject().set_user_handle(spec.user_handle);
    object.open(spec.async_file);
    let user = object.uobject().as_raw().cast();
    // SAFETY: All are valid; the queue pair counts as their user, and so they outlive it; the name is a constant.
    let made = from_err_ptr(unsafe {
        let name = c"ib_uverbs".as_char_ptr();
        let command = command.as_raw();
        bindings::ib_create_qp_user(device.as_raw(), pd, &mut init, command, user, name)
    });
    let qp = made
        .and_then(|raw| NonNull::new(raw).ok_or(EINVAL))
        .inspect_err(|_| object.close(sleep))?;
    // SAFETY: The function has created the queue pair for this function; it counts as a user of its parents until it is
    // destroyed.
    let qp = unsafe {
        bindings::ib_qp_usecnt_inc(qp.as_ptr());
        Owned::from_raw(qp)
    };
    if let QpDomain::Xrcd(xrcd) = spec.domain {
        object.xrcd.set(xrcd);
    }
    let cap = ib_uverbs_qp_cap {
        max_send_wr: init.cap.max_send_wr,
        max_recv_wr: init.cap.max_recv_wr,
        max_send_sge: init.cap.max_send_sge,
        max_recv_sge: init.cap.max_recv_sge,
        max_inline_data: init.cap.max_inline_data,
    };
    Ok(NewQp { qp, cap })
}

/// Opens a handle of an XRC target queue pair, for an object that is being created.
///
/// # Errors
///
/// `EINVAL` for an unknown number, `ENOMEM`.
pub fn open(
    xrcd: &ReadLocked<'_, Xrcd>,
    number: u32,
    kind: u32,
    object: &NewObject<'_, Qp>,
    sleep: &MaySleep,
) -> Result<Owned<Qp>> {
    let mut attr: bindings::ib_qp_open_attr = pin_init::zeroed();
    attr.event_handler = Some(on_qp_event);
    attr.qp_num = number;
    attr.qp_type = kind;
    object.open(None);
    // SAFETY: Both are valid during the call; the handler uses the queue pair's object.
    let qp = from_err_ptr(unsafe { bindings::ib_open_qp(xrcd.as_raw(), &mut attr) });
    let qp = qp
        .and_then(|raw| NonNull::new(raw).ok_or(EINVAL))
        .inspect_err(|_| object.close(sleep))?;
    object.xrcd.set(xrcd.memory());
    // SAFETY: The handle was just created, and has no other owner. The event handler ignores events before the object is set.
    unsafe {
        let member = &raw mut (*qp.as_ptr()).uobject;
        member.write_volatile(object.uobject().as_raw().cast());
        Ok(Owned::from_raw(qp))
    }
}

/// Destroys a queue pair.
///
/// # Errors
///
/// `EBUSY` while it is in multicast groups, if user space destroys it; those of ib_core and of the driver.
pub fn destroy(
    object: Destroying<'_, Qp>,
    why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    let qp = driver_object(&object)?;
    if why == RemoveReason::Destroy {
        if object.with_groups(sleep, |groups| Ok(!groups.is_empty()))? {
            return Err(EBUSY);
        }
    } else if !qp.is_handle() {
        object.leave_groups(qp, sleep);
    }
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; the function destroys it if it returns 0.
    unsafe { destroy_by(&object, |qp| bindings::ib_destroy_qp_user(qp, udata))? };
    object.close(sleep);
    Ok(())
}
