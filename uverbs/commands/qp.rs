// SPDX-License-Identifier: GPL-2.0

//! Write commands that create and destroy queue pairs, and attach them to multicast groups.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma::{
    core::{Cq, Pd, Qp, RwqIndTable, Srq, Xrcd},
    Gid,
};
use rdma_uverbs::{
    event::default_async,
    lookup::{Destroyed, ReadLocked},
    new::NewObject,
    qp::{self, QpDomain, QpSpec},
    request::{zeroed, Call},
    verbs,
};

/// The flags that user space may give.
const CREATE_FLAGS: u32 = (c::IB_QP_CREATE_BLOCK_MULTICAST_LOOPBACK
    | c::IB_QP_CREATE_CROSS_CHANNEL
    | c::IB_QP_CREATE_MANAGED_SEND
    | c::IB_QP_CREATE_MANAGED_RECV
    | c::IB_QP_CREATE_SCATTER_FCS
    | c::IB_QP_CREATE_CVLAN_STRIPPING
    | c::IB_QP_CREATE_SOURCE_QPN
    | c::IB_QP_CREATE_PCI_WRITE_END_PADDING) as u32;

/// `IB_USER_VERBS_CMD_CREATE_QP`.
///
/// # Errors
///
/// As for [`create_extended`].
pub(super) fn create(
    call: &Call<'_>,
    request: c::ib_uverbs_create_qp,
) -> Result<c::ib_uverbs_create_qp_resp> {
    let wanted = c::ib_uverbs_ex_create_qp {
        user_handle: request.user_handle,
        pd_handle: request.pd_handle,
        send_cq_handle: request.send_cq_handle,
        recv_cq_handle: request.recv_cq_handle,
        srq_handle: request.srq_handle,
        max_send_wr: request.max_send_wr,
        max_recv_wr: request.max_recv_wr,
        max_send_sge: request.max_send_sge,
        max_recv_sge: request.max_recv_sge,
        max_inline_data: request.max_inline_data,
        sq_sig_all: request.sq_sig_all,
        qp_type: request.qp_type,
        is_srq: request.is_srq,
        ..zeroed()
    };
    make(call, wanted)
}

/// `IB_USER_VERBS_EX_CMD_CREATE_QP`.
///
/// # Errors
///
/// `EINVAL` for an unknown type, unknown flags, and invalid combinations of objects; `EPERM` without a needed `CAP_NET_RAW`;
/// `ENOMEM`, and those of the driver.
pub(super) fn create_extended(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_create_qp,
) -> Result<c::ib_uverbs_ex_create_qp_resp> {
    const KNOWN: u32 = c::IB_UVERBS_CREATE_QP_SUP_COMP_MASK;
    if request.comp_mask & !KNOWN != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    Ok(c::ib_uverbs_ex_create_qp_resp {
        base: make(call, request)?,
        comp_mask: 0,
        response_length: call.response_length::<c::ib_uverbs_ex_create_qp_resp>(),
    })
}

/// Checks that user space may create queue pairs of a type.
fn check_kind(call: &Call<'_>, kind: u32) -> Result {
    match kind {
        c::IB_QPT_RAW_PACKET if !verbs::has_raw_cap(call.command) => Err(EPERM),
        c::IB_QPT_RAW_PACKET
        | c::IB_QPT_RC
        | c::IB_QPT_UC
        | c::IB_QPT_UD
        | c::IB_QPT_XRC_INI
        | c::IB_QPT_XRC_TGT
        | c::IB_QPT_DRIVER => Ok(()),
        _ => Err(EINVAL),
    }
}

/// The objects that a queue pair uses, locked for reading while it is created.
#[derive(Default)]
struct Parts<'a> {
    table: Option<ReadLocked<'a, RwqIndTable>>,
    xrcd: Option<ReadLocked<'a, Xrcd>>,
    pd: Option<ReadLocked<'a, Pd>>,
    srq: Option<ReadLocked<'a, Srq>>,
    send_cq: Option<ReadLocked<'a, Cq>>,
    /// `None` if it is the same as `send_cq`.
    recv_cq: Option<ReadLocked<'a, Cq>>,
}

impl<'a> Parts<'a> {
    fn find(call: &Call<'a>, wanted: &c::ib_uverbs_ex_create_qp) -> Result<Self> {
        let mut parts = Self::default();
        if wanted.comp_mask & c::IB_UVERBS_CREATE_QP_MASK_IND_TABLE != 0 {
            let handle = wanted.rwq_ind_tbl_handle;
            parts.table = Some(ReadLocked::get(call.command, handle, call.sleep)?);
            // The table has the receive queues.
            if wanted.max_recv_wr != 0 || wanted.max_recv_sge != 0 || wanted.is_srq != 0 {
                return Err(EINVAL);
            }
        }
        match u32::from(wanted.qp_type) {
            c::IB_QPT_XRC_TGT => {
                let xrcd = ReadLocked::get(call.command, wanted.pd_handle, call.sleep);
                parts.xrcd = Some(xrcd.map_err(|_| EINVAL)?);
            }
            c::IB_QPT_XRC_INI => parts.find_sender(call, wanted)?,
            _ => {
                parts.find_receiver(call, wanted)?;
                parts.find_sender(call, wanted)?;
            }
        }
        Ok(parts)
    }

    fn find_receiver(&mut self, call: &Call<'a>, wanted: &c::ib_uverbs_ex_create_qp) -> Result {
        if wanted.is_srq != 0 {
            let srq = ReadLocked::<Srq>::get(call.command, wanted.srq_handle, call.sleep)?;
            if srq.kind() == c::IB_SRQT_XRC {
                return Err(EINVAL);
            }
            self.srq = Some(srq);
        }
        if self.table.is_none() && wanted.recv_cq_handle != wanted.send_cq_handle {
            let handle = wanted.recv_cq_handle;
            self.recv_cq = Some(ReadLocked::get(call.command, handle, call.sleep)?);
        }
        Ok(())
    }

    fn find_sender(&mut self, call: &Call<'a>, wanted: &c::ib_uverbs_ex_create_qp) -> Result {
        if self.table.is_none() || wanted.max_send_wr != 0 {
            let handle = wanted.send_cq_handle;
            self.send_cq = Some(ReadLocked::get(call.command, handle, call.sleep)?);
        }
        self.pd = Some(ReadLocked::get(call.command, wanted.pd_handle, call.sleep)?);
        Ok(())
    }

    /// The completion queue of receives.
    fn recv_cq(&self, kind: u32) -> Option<&Cq> {
        if self.table.is_some() || kind == c::IB_QPT_XRC_INI {
            return None;
        }
        self.recv_cq.as_deref().or(self.send_cq.as_deref())
    }

    fn domain(&self) -> Result<QpDomain<'_>> {
        match (&self.pd, &self.xrcd) {
            (Some(pd), _) => Ok(QpDomain::Pd(pd)),
            (None, Some(xrcd)) => Ok(QpDomain::Xrcd(xrcd.memory())),
            (None, None) => Err(EINVAL),
        }
    }
}

/// Checks the flags of a queue pair.
fn check_flags(flags: u32) -> Result {
    if flags & !CREATE_FLAGS != 0 {
        return Err(EINVAL);
    }
    Ok(())
}

fn make(call: &Call<'_>, wanted: c::ib_uverbs_ex_create_qp) -> Result<c::ib_uverbs_create_qp_resp> {
    let kind = u32::from(wanted.qp_type);
    check_kind(call, kind)?;
    let new = NewObject::<Qp>::begin(call.command, call.sleep)?;
    let parts = Parts::find(call, &wanted)?;
    check_flags(wanted.create_flags)?;
    let receives = kind != c::IB_QPT_XRC_INI;
    let spec = QpSpec {
        kind,
        domain: parts.domain()?,
        send_cq: parts.send_cq.as_deref(),
        recv_cq: parts.recv_cq(kind),
        srq: parts.srq.as_deref(),
        rwq_ind_table: parts.table.as_deref(),
        cap: c::ib_uverbs_qp_cap {
            max_send_wr: wanted.max_send_wr,
            max_recv_wr: if receives { wanted.max_recv_wr } else { 0 },
            max_send_sge: wanted.max_send_sge,
            max_recv_sge: if receives { wanted.max_recv_sge } else { 0 },
            max_inline_data: wanted.max_inline_data,
        },
        create_flags: wanted.create_flags,
        source_qpn: if wanted.create_flags & c::IB_QP_CREATE_SOURCE_QPN as u32 != 0 {
            wanted.source_qpn
        } else {
            0
        },
        sq_sig_all: wanted.sq_sig_all != 0,
        user_handle: wanted.user_handle,
        async_file: default_async(call.command.file()),
    };
    let made = qp::create(call.command, &new, spec, call.sleep)?;
    let response = c::ib_uverbs_create_qp_resp {
        qp_handle: new.id(),
        qpn: made.qp.qp_num(),
        max_send_wr: made.cap.max_send_wr,
        max_recv_wr: made.cap.max_recv_wr,
        max_send_sge: made.cap.max_send_sge,
        max_recv_sge: made.cap.max_recv_sge,
        max_inline_data: made.cap.max_inline_data,
        ..zeroed()
    };
    new.complete(made.qp);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_OPEN_QP`: opens a handle of an XRC target queue pair.
///
/// # Errors
///
/// `EINVAL` if there is no such domain or queue pair, `ENOMEM`.
pub(super) fn open(
    call: &Call<'_>,
    request: c::ib_uverbs_open_qp,
) -> Result<c::ib_uverbs_create_qp_resp> {
    let new = NewObject::<Qp>::begin(call.command, call.sleep)?;
    let xrcd = ReadLocked::<Xrcd>::get(call.command, request.pd_handle, call.sleep);
    let xrcd = xrcd.map_err(|_| EINVAL)?;
    new.uobject().set_user_handle(request.user_handle);
    let kind = request.qp_type.into();
    let qp = qp::open(&xrcd, request.qpn, kind, &new, call.sleep)?;
    let response = c::ib_uverbs_create_qp_resp {
        qp_handle: new.id(),
        qpn: qp.qp_num(),
        ..zeroed()
    };
    new.complete(qp);
    Ok(response)
}

/// `IB_USER_VERBS_CMD_DESTROY_QP`.
///
/// # Errors
///
/// `EBUSY` while it is in multicast groups or has flow steering rules, and those of the driver.
pub(super) fn destroy(
    call: &Call<'_>,
    request: c::ib_uverbs_destroy_qp,
) -> Result<c::ib_uverbs_destroy_qp_resp> {
    let removed = Destroyed::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    Ok(c::ib_uverbs_destroy_qp_resp {
        events_reported: removed.events_reported(),
    })
}

/// `IB_USER_VERBS_CMD_ATTACH_MCAST`. It succeeds if the queue pair is in the group already.
///
/// # Errors
///
/// `ENOMEM`, and as for [`verbs::attach_mcast`].
pub(super) fn attach_mcast(call: &Call<'_>, request: c::ib_uverbs_attach_mcast) -> Result {
    let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    let group = (Gid(request.gid), request.mlid);
    qp.memory().with_groups(call.sleep, |groups| {
        if groups.contains(&group) {
            return Ok(());
        }
        groups.reserve(1, GFP_KERNEL)?;
        verbs::attach_mcast(&qp, group.0, group.1, call.sleep)?;
        Ok(groups.push(group, GFP_KERNEL)?)
    })
}

/// `IB_USER_VERBS_CMD_DETACH_MCAST`.
///
/// # Errors
///
/// `EINVAL` if the queue pair is not in the group, and as for [`verbs::detach_mcast`].
pub(super) fn detach_mcast(call: &Call<'_>, request: c::ib_uverbs_detach_mcast) -> Result {
    let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    let group = (Gid(request.gid), request.mlid);
    qp.memory().with_groups(call.sleep, |groups| {
        let at = groups.iter().position(|joined| *joined == group);
        groups.remove(at.ok_or(EINVAL)?).map_err(|_| EINVAL)?;
        verbs::detach_mcast(&qp, group.0, group.1, call.sleep)
    })
}
