// SPDX-License-Identifier: GPL-2.0

//! Functions of ib_core that commands call: verbs with user data, and resource tracking. Process context.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/restrack.h`.

use core::ptr::NonNull;

use kernel::{
    error::{from_err_ptr, to_result},
    ffi::c_int,
    prelude::*,
};
use rdma::{
    core::{
        ah_attr::AhVector,
        object::{Owned, UdataView},
        qp::QpAttr,
        Ah, AttrBundle, Cq, Device, Pd, Qp, Srq,
    },
    Gid, MaySleep,
};
use rdma_bindings as c;

/// Resource tracking of objects that commands create.
pub mod track {
    use kernel::prelude::*;
    use rdma::core::{
        object::{DriverObject, Failed, Fresh, Tracked},
        restrack::{Owns, Unlisted},
    };
    use rdma_bindings as c;

    /// Lets an object that is being created belong to the current process.
    pub fn set_owner(object: &mut impl Unlisted) {
        // SAFETY: By the invariants of an `UnlistedEntry` it is begun, and not listed.
        unsafe { c::rdma_restrack_set_name(object.unlisted().as_raw(), core::ptr::null()) };
    }

    /// Lists an object that was created, unless it is listed.
    pub fn add(object: &impl Owns) {
        let entry = object.entry();
        if !entry.is_valid() {
            // SAFETY: By the invariants of an `OwnEntry` no other thread lists the object, which is not listed.
            unsafe { c::rdma_restrack_add(entry.as_raw()) };
        }
    }

    /// Drops the entry of an object that was not created.
    pub fn forget(object: &mut impl Unlisted) {
        let entry = object.unlisted();
        if entry.has_first_reference() {
            // SAFETY: By the invariants of an `UnlistedEntry` the reference that is counted is the first.
            unsafe { c::rdma_restrack_put(entry.as_raw()) };
        }
    }

    /// As [`forget`], and frees the memory of the object.
    pub fn discard<T: DriverObject + Tracked>(mut failed: Failed<Fresh<T>>) -> Error {
        forget(&mut failed.object);
        failed.error
    }

    /// Waits for current readers of a changed object; later readers see the change.
    pub fn sync(object: &impl Tracked, _sleep: &rdma::MaySleep) {
        // SAFETY: The object is valid, and listed.
        unsafe { c::rdma_restrack_sync(object.res().as_raw()) };
    }
}

/// Whether the current process has `CAP_NET_RAW` for the command's device.
pub fn has_raw_cap(command: &AttrBundle) -> bool {
    // SAFETY: The command is valid.
    unsafe { c::rdma_uattrs_has_raw_cap(command.as_raw()) }
}

/// Whether privileged Q_Keys need no capability (`rdma system set privileged-qkey on`).
pub fn privileged_qkey() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { c::rdma_nl_get_privileged_qkey() }
}

/// Queries the attributes of a port.
///
/// # Errors
///
/// `EINVAL` if there is no such port, and those of the driver.
pub fn query_port(device: &Device, port: u32, _sleep: &MaySleep) -> Result<c::ib_port_attr> {
    let mut attr = pin_init::zeroed();
    // SAFETY: The device is valid, and the attributes are local.
    to_result(unsafe { c::ib_query_port(device.as_raw(), port, &mut attr) })?;
    Ok(attr)
}

/// `enum rdma_link_layer` of a port.
pub fn link_layer(device: &Device, port: u32) -> u32 {
    // SAFETY: The device is valid.
    unsafe { c::rdma_port_get_link_layer(device.as_raw(), port) }
}

/// Creates an address handle; resolves the MAC address of a RoCE path.
///
/// # Errors
///
/// `EINVAL` for an invalid path, `ENOMEM`, and those of the driver.
pub fn create_ah(
    pd: &Pd,
    vector: &mut AhVector,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result<Owned<Ah>> {
    let vector = core::ptr::from_mut(vector).cast();
    // SAFETY: All are valid; the address vector's wrapper is transparent, and the function leaves its source as it was.
    let ah = from_err_ptr(unsafe { c::rdma_create_user_ah(pd.as_raw(), vector, udata.as_raw()) })?;
    let ah = NonNull::new(ah).ok_or(EINVAL)?;
    // SAFETY: The handle was just created, and this function owns it.
    Ok(unsafe { Owned::from_raw(ah) })
}

/// Sets the moderation of a completion queue: `count` completions or `period` microseconds.
///
/// # Errors
///
/// `EOPNOTSUPP`, and those of the driver.
pub fn set_cq_moderation(cq: &Cq, count: u16, period: u16, _sleep: &MaySleep) -> Result {
    // SAFETY: The queue is valid.
    to_result(unsafe { c::rdma_set_cq_moderation(cq.as_raw(), count, period) })
}

/// Queries the attributes of a shared receive queue.
///
/// # Errors
///
/// `EOPNOTSUPP`, and those of the driver.
pub fn query_srq(srq: &Srq, _sleep: &MaySleep) -> Result<c::ib_srq_attr> {
    let mut attr = pin_init::zeroed();
    // SAFETY: The queue is valid, and the attributes are local.
    to_result(unsafe { c::ib_query_srq(srq.as_raw(), &mut attr) })?;
    Ok(attr)
}

/// Modifies a queue pair; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EINVAL` and others for an invalid path, and those of the driver.
pub fn modify_qp(
    qp: &Qp,
    attr: &mut QpAttr,
    mask: u32,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result {
    let attr = attr.as_mut_ptr();
    // SAFETY: All are valid; by the invariants of their type the attributes are filled in.
    to_result(unsafe {
        c::ib_modify_qp_with_udata(qp.as_raw(), attr, mask as c_int, udata.as_raw())
    })
}

/// Queries the attributes of a queue pair; `mask` is `enum ib_qp_attr_mask`.
///
/// # Errors
///
/// `EOPNOTSUPP`, and those of the driver.
pub fn query_qp(
    qp: &Qp,
    attr: &mut c::ib_qp_attr,
    mask: u32,
    init: &mut c::ib_qp_init_attr,
    _sleep: &MaySleep,
) -> Result {
    // SAFETY: All are valid.
    to_result(unsafe { c::ib_query_qp(qp.as_raw(), attr, mask as c_int, init) })
}

/// Attaches a queue pair to a multicast group.
///
/// # Errors
///
/// `EINVAL` for a GID that is not multicast, or a queue pair that is not UD; and those of the driver.
pub fn attach_mcast(qp: &Qp, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
    let mut gid = c::ib_gid { raw: gid.0 };
    // SAFETY: Both are valid.
    to_result(unsafe { c::ib_attach_mcast(qp.as_raw(), &mut gid, lid) })
}

/// Detaches a queue pair from a multicast group.
///
/// # Errors
///
/// As for [`attach_mcast`].
pub fn detach_mcast(qp: &Qp, gid: Gid, lid: u16, _sleep: &MaySleep) -> Result {
    let mut gid = c::ib_gid { raw: gid.0 };
    // SAFETY: Both are valid.
    to_result(unsafe { c::ib_detach_mcast(qp.as_raw(), &mut gid, lid) })
}

/// Whether shared receive queues of a type, `enum ib_srq_type`, have a completion queue.
pub fn srq_has_cq(kind: u32) -> bool {
    matches!(kind, c::IB_SRQT_XRC | c::IB_SRQT_TM)
}
