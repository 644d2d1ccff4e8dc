// SPDX-License-Identifier: GPL-2.0

//! The verbs of ib_core for user space, and what else it exports for commands. Process context.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/restrack.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
};
use rdma::{
    view::{
        ah_attr::AhVector,
        object::{Owned, UdataView},
        qp::QpAttr,
        Ah, AttrBundle, Cq, Device, Pd, Qp, Srq,
    },
    Gid, MaySleep,
};
use rdma_bindings as c;

/// What resource tracking is told of an object, from its making on. Whoever destroys the object takes it out of the list.
pub mod track {
    use kernel::prelude::*;
    use rdma::view::{
        object::{DriverObject, Failed, Fresh, Tracked},
        restrack::Owns,
    };
    use rdma_bindings as c;

    /// An object is about to be made, for the present process; `kind` is `enum rdma_restrack_type`.
    pub fn begin(object: &impl Owns, kind: u32) {
        let res = object.entry().as_raw();
        // SAFETY: By the invariants of an `OwnEntry`, and the object is not listed yet.
        unsafe {
            c::rdma_restrack_new(res, kind);
            c::rdma_restrack_set_name(res, core::ptr::null());
        }
    }

    /// The object has been made: from now on it is listed.
    pub fn add(object: &impl Owns) {
        // SAFETY: The object is there, and was begun.
        unsafe { c::rdma_restrack_add(object.entry().as_raw()) };
    }

    /// The object is not made after all: it is forgotten.
    pub fn forget(object: &impl Owns) {
        // SAFETY: The object was begun, and not added: this is the only reference.
        unsafe { c::rdma_restrack_put(object.entry().as_raw()) };
    }

    /// The driver has not made the object: it is forgotten and freed.
    pub fn discard<T: DriverObject + Tracked>(failed: Failed<Fresh<T>>) -> Error {
        forget(&failed.object);
        failed.error
    }

    /// Waits until nobody looks at the object, which has changed: who looks again sees the change.
    pub fn sync(object: &impl Tracked, _sleep: &rdma::MaySleep) {
        // SAFETY: The object is there, and listed.
        unsafe { c::rdma_restrack_sync(object.res().as_raw()) };
    }
}

/// Whether the present process may use raw packets, in the namespace of the command's device.
pub fn has_raw_cap(command: &AttrBundle) -> bool {
    // SAFETY: The command is there.
    unsafe { c::rdma_uattrs_has_raw_cap(command.as_raw()) }
}

/// Whether everybody may use privileged Q_Keys.
pub fn privileged_qkey() -> bool {
    // SAFETY: It may be asked at any time.
    unsafe { c::rdma_nl_get_privileged_qkey() }
}

/// Asks for the attributes of a port.
///
/// # Errors
///
/// `EINVAL` if there is no such port, and what the driver answers.
pub fn query_port(device: &Device, port: u32, _sleep: &MaySleep) -> Result<c::ib_port_attr> {
    let mut attr = pin_init::zeroed();
    // SAFETY: The device is there, and the attributes are ours.
    to_result(unsafe { c::ib_query_port(device.as_raw(), port, &mut attr) })?;
    Ok(attr)
}

/// `enum rdma_link_layer` of a port.
pub fn link_layer(device: &Device, port: u32) -> u32 {
    // SAFETY: The device is there.
    unsafe { c::rdma_port_get_link_layer(device.as_raw(), port) }
}

/// Makes an address handle, for a path whose addresses need not be complete.
///
/// # Errors
///
/// `EINVAL`, `ENOMEM`, what is wrong with the path, and what the driver answers.
pub fn create_ah(
    pd: &Pd,
    vector: &mut AhVector,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result<Owned<Ah>> {
    let vector = core::ptr::from_mut(vector).cast();
    // SAFETY: All are there; the address vector's wrapper is transparent, and the function leaves its source as it was.
    let ah = from_err_ptr(unsafe { c::rdma_create_user_ah(pd.as_raw(), vector, udata.as_raw()) })?;
    let ah = NonNull::new(ah).ok_or(EINVAL)?;
    // SAFETY: It was just made, and is ours.
    Ok(unsafe { Owned::from_raw(ah) })
}

/// Moderates a completion queue.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
pub fn set_cq_moderation(cq: &Cq, count: u16, period: u16, _sleep: &MaySleep) -> Result {
    // SAFETY: The queue is there.
    to_result(unsafe { c::rdma_set_cq_moderation(cq.as_raw(), count, period) })
}

/// Asks what a shared receive queue is like.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
pub fn query_srq(srq: &Srq, _sleep: &MaySleep) -> Result<c::ib_srq_attr> {
    let mut attr = pin_init::zeroed();
    // SAFETY: The queue is there, and the attributes are ours.
    to_result(unsafe { c::ib_query_srq(srq.as_raw(), &mut attr) })?;
    Ok(attr)
}

/// Changes a queue pair; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EINVAL` and others for a path that the device cannot have, and what the driver answers.
pub fn modify_qp(
    qp: &Qp,
    attr: &mut QpAttr,
    mask: u32,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result {
    let attr = core::ptr::from_mut(attr).cast();
    // SAFETY: All are there; the wrapper of the attributes is transparent.
    to_result(unsafe {
        c::ib_modify_qp_with_udata(qp.as_raw(), attr, mask as c_int, udata.as_raw())
    })
}

/// Asks what a queue pair is like; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EOPNOTSUPP`, and what the driver answers.
pub fn query_qp(
    qp: &Qp,
    attr: &mut QpAttr,
    mask: u32,
    init: &mut c::ib_qp_init_attr,
    _sleep: &MaySleep,
) -> Result {
    let attr = core::ptr::from_mut(attr).cast();
    // SAFETY: All are there; the wrapper of the attributes is transparent.
    to_result(unsafe { c::ib_query_qp(qp.as_raw(), attr, mask as c_int, init) })
}

/// Lets a queue pair join a multicast group.
///
/// # Errors
///
/// `EINVAL` for what is no group, or a queue pair that cannot; and what the driver answers.
pub fn attach_mcast(qp: &Qp, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
    let mut gid = c::ib_gid { raw: gid.0 };
    // SAFETY: Both are there.
    to_result(unsafe { c::ib_attach_mcast(qp.as_raw(), &mut gid, lid) })
}

/// Lets a queue pair leave a multicast group.
///
/// # Errors
///
/// As for [`attach_mcast`].
pub fn detach_mcast(qp: &Qp, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
    let mut gid = c::ib_gid { raw: gid.0 };
    // SAFETY: Both are there.
    to_result(unsafe { c::ib_detach_mcast(qp.as_raw(), &mut gid, lid) })
}

/// Whether shared receive queues of a type, `enum ib_srq_type`, have a completion queue.
pub fn srq_has_cq(kind: u32) -> bool {
    matches!(kind, c::IB_SRQT_XRC | c::IB_SRQT_TM)
}
