// SPDX-License-Identifier: GPL-2.0

//! Queue pairs of user space.

use core::ptr::{null_mut, NonNull};

use kernel::{error::from_err_ptr, prelude::*, sync::aref::ARef};
use rdma::{
    core::{
        object::Owned, uobject::RemoveReason, AttrBundle, Cq, Device, Pd, Qp, RwqIndTable, Srq,
        Xrcd,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_uverbs_destroy_qp_resp, ib_uverbs_qp_cap};

use crate::{
    attrs::plain,
    destroy::destroy_by,
    event::AsyncFile,
    uevent::{on_qp_event, QpObject, XrcdObject},
    verbs::has_raw_cap,
};

plain! { ib_uverbs_qp_cap ib_uverbs_destroy_qp_resp }

/// What a queue pair is of.
#[derive(Clone, Copy)]
pub enum QpHome<'a> {
    /// A protection domain.
    Pd(&'a Pd),
    /// An XRC domain: a target queue pair.
    Xrcd(&'a XrcdObject),
}

/// What a queue pair is to be like.
pub struct QpSpec<'a> {
    /// `enum ib_qp_type`.
    pub kind: u32,
    /// What it is of.
    pub home: QpHome<'a>,
    /// Where sends complete.
    pub send_cq: Option<&'a Cq>,
    /// Where receives complete.
    pub recv_cq: Option<&'a Cq>,
    /// The shared receive queue.
    pub srq: Option<&'a Srq>,
    /// The table of work queues.
    pub rwq_ind_table: Option<&'a RwqIndTable>,
    /// How much it has room for.
    pub cap: ib_uverbs_qp_cap,
    /// `enum ib_qp_create_flags`.
    pub create_flags: u32,
    /// The number that it sends as, if the flags say so.
    pub source_qpn: u32,
    /// Whether each send request completes.
    pub sq_sig_all: bool,
    /// What user space calls it.
    pub user_handle: u64,
    /// Where events are reported.
    pub async_file: Option<ARef<AsyncFile>>,
}

/// What has become of it.
pub struct NewQp {
    /// The queue pair.
    pub qp: Owned<Qp>,
    /// How much it has room for.
    pub cap: ib_uverbs_qp_cap,
}

fn xrcd_of(object: &XrcdObject) -> Result<&Xrcd> {
    // SAFETY: The object is of the class, and locked by whoever has looked it up; a view is a transparent wrapper.
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

/// Makes a queue pair for an object that is being made.
///
/// # Errors
///
/// `EPERM` for a source QP number without `CAP_NET_RAW`; `EINVAL` for an XRC domain that is gone, and those of ib_core and of
/// the driver: then nothing is left.
pub fn create(
    command: &AttrBundle,
    object: &QpObject,
    spec: QpSpec<'_>,
    _sleep: &MaySleep,
) -> Result<NewQp> {
    let sends_as_other = spec.create_flags & bindings::IB_QP_CREATE_SOURCE_QPN as u32 != 0;
    if sends_as_other && !has_raw_cap(command) {
        return Err(EPERM);
    }
    let mut init = init_attr(&spec);
    let (device, pd): (&Device, _) = match spec.home {
        QpHome::Pd(pd) => (pd.device(), pd.as_raw()),
        QpHome::Xrcd(object) => {
            let xrcd = xrcd_of(object)?;
            init.xrcd = xrcd.as_raw();
            (xrcd.device(), null_mut())
        }
    };
    object.uobject().set_user_handle(spec.user_handle);
    // SAFETY: The object is being made by this command.
    unsafe { object.open(spec.async_file) };
    let user = object.uobject().as_raw().cast();
    // SAFETY: All are there, and stay as long as the queue pair, for which it counts them; the name is a constant.
    let made = from_err_ptr(unsafe {
        let name = c"ib_uverbs".as_char_ptr();
        let command = command.as_raw();
        bindings::ib_create_qp_user(device.as_raw(), pd, &mut init, command, user, name)
    });
    let qp = made
        .and_then(|raw| NonNull::new(raw).ok_or(EINVAL))
        // SAFETY: It was opened above, and has no queue pair.
        .inspect_err(|_| unsafe { object.close() })?;
    // SAFETY: The function has made it for us; it is counted as a user of what it uses until it is destroyed.
    let qp = unsafe {
        bindings::ib_qp_usecnt_inc(qp.as_ptr());
        Owned::from_raw(qp)
    };
    if let QpHome::Xrcd(xrcd) = spec.home {
        object.use_xrcd(xrcd);
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

/// Destroys the queue pair of an object. For the `destroy_object` of the class.
///
/// # Errors
///
/// `EBUSY` while it is in multicast groups, where user space has asked for it; those of ib_core and of the driver.
///
/// # Safety
///
/// The object is open, is of the class of queue pairs, and is this thread's alone.
pub unsafe fn destroy(
    object: &QpObject,
    why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    let qp = unsafe { object.uobject().object().cast::<Qp>().as_ref() }.ok_or(EINVAL)?;
    if why == RemoveReason::Destroy {
        if object.with_groups(sleep, |groups| !groups.is_empty()) {
            return Err(EBUSY);
        }
    } else if !qp.is_handle() {
        object.leave_groups(qp, sleep);
    }
    let udata = command.driver_udata().as_raw();
    // SAFETY: The object is given up; it is gone if the function succeeds.
    unsafe {
        destroy_by::<Qp>(object.uobject(), |qp| {
            bindings::ib_destroy_qp_user(qp, udata)
        })?
    };
    // SAFETY: The queue pair is gone, and whoever destroys the object has it alone.
    unsafe { object.close() };
    Ok(())
}
