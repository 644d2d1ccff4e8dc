// SPDX-License-Identifier: GPL-2.0

//! Write commands that modify and query queue pairs.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, error::EOPNOTSUPP};
use rdma::core::{
    qp::QpAttr,
    user::{UserPath, UserRoute},
    Device, Qp,
};
use rdma_uverbs::{
    lookup::ReadLocked,
    request::{zeroed, Call},
    verbs,
};

/// The path of an `ib_uverbs_qp_dest`.
fn path(dest: &c::ib_uverbs_qp_dest) -> UserPath {
    UserPath {
        dlid: dest.dlid,
        sl: dest.sl,
        src_path_bits: dest.src_path_bits,
        static_rate: dest.static_rate,
        port_num: dest.port_num,
        route: (dest.is_global != 0).then_some(UserRoute {
            dgid: dest.dgid,
            flow_label: dest.flow_label,
            sgid_index: dest.sgid_index,
            hop_limit: dest.hop_limit,
            traffic_class: dest.traffic_class,
        }),
    }
}

/// A path for user space.
fn destination(attr: &c::rdma_ah_attr) -> c::ib_uverbs_qp_dest {
    let path = UserPath::of(attr);
    let route = path.route.unwrap_or_default();
    c::ib_uverbs_qp_dest {
        dgid: route.dgid,
        flow_label: route.flow_label,
        dlid: path.dlid,
        reserved: 0,
        sgid_index: route.sgid_index,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.route.is_some().into(),
        port_num: path.port_num,
    }
}

/// `IB_USER_VERBS_CMD_QUERY_QP`.
///
/// # Errors
///
/// Those of the driver.
pub(super) fn query(
    call: &Call<'_>,
    request: c::ib_uverbs_query_qp,
) -> Result<c::ib_uverbs_query_qp_resp> {
    let mut attr = KBox::new(pin_init::zeroed::<c::ib_qp_attr>(), GFP_KERNEL)?;
    let mut init = KBox::new(pin_init::zeroed::<c::ib_qp_init_attr>(), GFP_KERNEL)?;
    {
        let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
        verbs::query_qp(&qp, &mut attr, request.attr_mask, &mut init, call.sleep)?;
    }
    Ok(c::ib_uverbs_query_qp_resp {
        dest: destination(&attr.ah_attr),
        alt_dest: destination(&attr.alt_ah_attr),
        max_send_wr: init.cap.max_send_wr,
        max_recv_wr: init.cap.max_recv_wr,
        max_send_sge: init.cap.max_send_sge,
        max_recv_sge: init.cap.max_recv_sge,
        max_inline_data: init.cap.max_inline_data,
        qkey: attr.qkey,
        rq_psn: attr.rq_psn,
        sq_psn: attr.sq_psn,
        dest_qp_num: attr.dest_qp_num,
        qp_access_flags: attr.qp_access_flags as u32,
        pkey_index: attr.pkey_index,
        alt_pkey_index: attr.alt_pkey_index,
        qp_state: attr.qp_state as u8,
        cur_qp_state: attr.cur_qp_state as u8,
        path_mtu: attr.path_mtu as u8,
        path_mig_state: attr.path_mig_state as u8,
        sq_draining: attr.sq_draining,
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        port_num: attr.port_num as u8,
        timeout: attr.timeout,
        retry_cnt: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        alt_port_num: attr.alt_port_num as u8,
        alt_timeout: attr.alt_timeout,
        sq_sig_all: (init.sq_sig_type == c::IB_SIGNAL_ALL_WR).into(),
        ..zeroed()
    })
}

/// `IB_USER_VERBS_CMD_MODIFY_QP`.
///
/// # Errors
///
/// `EOPNOTSUPP` for unknown attributes; `EINVAL` for invalid ports and states, and paths of other ports; `EPERM` for a privileged
/// Q_Key; as for [`verbs::modify_qp`].
pub(super) fn modify(call: &Call<'_>, request: c::ib_uverbs_modify_qp) -> Result {
    if request.attr_mask & !c::IB_QP_ATTR_STANDARD_BITS != 0 {
        return Err(EOPNOTSUPP);
    }
    change(call, request, 0)
}

/// `IB_USER_VERBS_EX_CMD_MODIFY_QP`.
///
/// # Errors
///
/// As for [`modify`].
pub(super) fn modify_extended(
    call: &Call<'_>,
    request: c::ib_uverbs_ex_modify_qp,
) -> Result<c::ib_uverbs_ex_modify_qp_resp> {
    const KNOWN: u32 = c::IB_QP_ATTR_STANDARD_BITS | c::IB_QP_RATE_LIMIT;
    if request.base.attr_mask & !KNOWN != 0 {
        return Err(EOPNOTSUPP);
    }
    change(call, request.base, request.rate_limit)?;
    Ok(c::ib_uverbs_ex_modify_qp_resp {
        comp_mask: 0,
        response_length: call.response_length::<c::ib_uverbs_ex_modify_qp_resp>(),
    })
}

/// Checks the ports of a modification: the port of a path is that of the queue pair.
fn check_ports(qp: &Qp, request: &mut c::ib_uverbs_modify_qp) -> Result {
    let device = qp.device();
    let is_port = |port: u8| device.is_port_valid(port.into());
    let has = |attr: u32| request.attr_mask & attr != 0;
    if has(c::IB_QP_PORT) && !is_port(request.port_num) {
        return Err(EINVAL);
    }
    if has(c::IB_QP_ALT_PATH) {
        let port = request.alt_port_num;
        if !is_port(port) || port != request.alt_dest.port_num {
            return Err(EINVAL);
        }
    }
    if !has(c::IB_QP_AV) {
        return Ok(());
    }
    let port = request.dest.port_num;
    if !is_port(port) {
        return Err(EINVAL);
    }
    let to_rtr = has(c::IB_QP_STATE) && u32::from(request.qp_state) == c::IB_QPS_RTR;
    if to_rtr {
        // The port was set on the way to INIT, and may not be given again.
        return (u32::from(port) == qp.real().port())
            .then_some(())
            .ok_or(EINVAL);
    }
    if has(c::IB_QP_PORT) {
        return (port == request.port_num).then_some(()).ok_or(EINVAL);
    }
    request.attr_mask |= c::IB_QP_PORT;
    request.port_num = port;
    Ok(())
}

/// Checks that the states of a modification are valid.
fn check_states(request: &c::ib_uverbs_modify_qp) -> Result {
    let given = [
        (c::IB_QP_CUR_STATE, request.cur_qp_state),
        (c::IB_QP_STATE, request.qp_state),
    ];
    let is_none = |(attr, state): (u32, u8)| {
        request.attr_mask & attr != 0 && u32::from(state) > c::IB_QPS_ERR
    };
    if given.into_iter().any(is_none) {
        return Err(EINVAL);
    }
    Ok(())
}

/// Checks that the current process may use a Q_Key.
fn check_qkey(call: &Call<'_>, request: &c::ib_uverbs_modify_qp) -> Result {
    let privileged =
        request.attr_mask & c::IB_QP_QKEY != 0 && request.qkey & c::IB_QP_SET_QKEY != 0;
    if privileged && !verbs::privileged_qkey() && !verbs::has_raw_cap(call.command) {
        return Err(EPERM);
    }
    Ok(())
}

/// Copies the attributes that the mask names.
fn fill(
    attr: &mut c::ib_qp_attr,
    device: &Device,
    request: &c::ib_uverbs_modify_qp,
    rate_limit: u32,
) {
    macro_rules! take {
        ($($mask:ident: $($to:ident = $from:expr),+;)*) => {$(
            if request.attr_mask & c::$mask != 0 {
                $(attr.$to = $from.into();)+
            }
        )*};
    }
    take! {
        IB_QP_STATE: qp_state = request.qp_state;
        IB_QP_CUR_STATE: cur_qp_state = request.cur_qp_state;
        IB_QP_PATH_MTU: path_mtu = request.path_mtu;
        IB_QP_PATH_MIG_STATE: path_mig_state = request.path_mig_state;
        IB_QP_QKEY: qkey = request.qkey;
        IB_QP_RQ_PSN: rq_psn = request.rq_psn;
        IB_QP_SQ_PSN: sq_psn = request.sq_psn;
        IB_QP_DEST_QPN: dest_qp_num = request.dest_qp_num;
        IB_QP_ACCESS_FLAGS: qp_access_flags = request.qp_access_flags as i32;
        IB_QP_PKEY_INDEX: pkey_index = request.pkey_index;
        IB_QP_EN_SQD_ASYNC_NOTIFY: en_sqd_async_notify = request.en_sqd_async_notify;
        IB_QP_MAX_QP_RD_ATOMIC: max_rd_atomic = request.max_rd_atomic;
        IB_QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic = request.max_dest_rd_atomic;
        IB_QP_MIN_RNR_TIMER: min_rnr_timer = request.min_rnr_timer;
        IB_QP_PORT: port_num = request.port_num;
        IB_QP_TIMEOUT: timeout = request.timeout;
        IB_QP_RETRY_CNT: retry_cnt = request.retry_cnt;
        IB_QP_RNR_RETRY: rnr_retry = request.rnr_retry;
        IB_QP_ALT_PATH: alt_port_num = request.alt_port_num, alt_timeout = request.alt_timeout,
            alt_pkey_index = request.alt_pkey_index;
        IB_QP_RATE_LIMIT: rate_limit = rate_limit;
    }
    if request.attr_mask & c::IB_QP_AV != 0 {
        path(&request.dest).fill(device, &mut attr.ah_attr);
    }
    if request.attr_mask & c::IB_QP_ALT_PATH != 0 {
        path(&request.alt_dest).fill(device, &mut attr.alt_ah_attr);
    }
}

/// The attributes that queue pairs of a type have; others that user space names are ignored.
fn own_attributes(kind: u32, mask: u32) -> u32 {
    match kind {
        c::IB_QPT_XRC_INI => mask & !(c::IB_QP_MAX_DEST_RD_ATOMIC | c::IB_QP_MIN_RNR_TIMER),
        c::IB_QPT_XRC_TGT => {
            mask & !(c::IB_QP_MAX_QP_RD_ATOMIC | c::IB_QP_RETRY_CNT | c::IB_QP_RNR_RETRY)
        }
        _ => mask,
    }
}

fn change(call: &Call<'_>, mut request: c::ib_uverbs_modify_qp, rate_limit: u32) -> Result {
    let mut attr = KBox::new(QpAttr::zeroed(), GFP_KERNEL)?;
    let qp = ReadLocked::<Qp>::get(call.command, request.qp_handle, call.sleep)?;
    check_ports(&qp, &mut request)?;
    check_states(&request)?;
    check_qkey(call, &request)?;
    attr.modify(|attr| fill(attr, qp.device(), &request, rate_limit));
    let mask = own_attributes(qp.kind(), request.attr_mask);
    verbs::modify_qp(&qp, &mut attr, mask, call.udata(), call.sleep)
}
