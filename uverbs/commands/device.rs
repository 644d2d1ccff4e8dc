// SPDX-License-Identifier: GPL-2.0

//! Write commands that query a device and its ports.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, compat::limit::Limit};
use rdma::core::{Device, Ucontext};
use rdma_uverbs::{
    request::{zeroed, Call},
    verbs,
};

/// The attributes of a device that all versions of the query have.
fn attributes(device: &Device, attr: &c::ib_device_attr) -> c::ib_uverbs_query_device_resp {
    c::ib_uverbs_query_device_resp {
        fw_ver: attr.fw_ver,
        node_guid: u64::from_ne_bytes(device.node_guid()),
        sys_image_guid: attr.sys_image_guid,
        max_mr_size: attr.max_mr_size,
        page_size_cap: attr.page_size_cap,
        vendor_id: attr.vendor_id,
        vendor_part_id: attr.vendor_part_id,
        hw_ver: attr.hw_ver,
        max_qp: attr.max_qp.bits(),
        max_qp_wr: attr.max_qp_wr.bits(),
        device_cap_flags: attr.device_cap_flags as u32,
        max_sge: attr.max_send_sge.min(attr.max_recv_sge).bits(),
        max_sge_rd: attr.max_sge_rd.bits(),
        max_cq: attr.max_cq.bits(),
        max_cqe: attr.max_cqe.bits(),
        max_mr: attr.max_mr.bits(),
        max_pd: attr.max_pd.bits(),
        max_qp_rd_atom: attr.max_qp_rd_atom.bits(),
        max_ee_rd_atom: attr.max_ee_rd_atom.bits(),
        max_res_rd_atom: attr.max_res_rd_atom.bits(),
        max_qp_init_rd_atom: attr.max_qp_init_rd_atom.bits(),
        max_ee_init_rd_atom: attr.max_ee_init_rd_atom.bits(),
        atomic_cap: attr.atomic_cap,
        max_ee: attr.max_ee.bits(),
        max_rdd: attr.max_rdd.bits(),
        max_mw: attr.max_mw.bits(),
        max_raw_ipv6_qp: attr.max_raw_ipv6_qp.bits(),
        max_raw_ethy_qp: attr.max_raw_ethy_qp.bits(),
        max_mcast_grp: attr.max_mcast_grp.bits(),
        max_mcast_qp_attach: attr.max_mcast_qp_attach.bits(),
        max_total_mcast_qp_attach: attr.max_total_mcast_qp_attach.bits(),
        max_ah: attr.max_ah.bits(),
        max_srq: attr.max_srq.bits(),
        max_srq_wr: attr.max_srq_wr.bits(),
        max_srq_sge: attr.max_srq_sge.bits(),
        max_pkeys: attr.max_pkeys,
        local_ca_ack_delay: attr.local_ca_ack_delay,
        phys_port_cnt: device.phys_port_cnt().min(u8::MAX.into()) as u8,
        ..zeroed()
    }
}

/// `IB_USER_VERBS_CMD_QUERY_DEVICE`: the attributes that the device had when it was registered.
///
/// # Errors
///
/// `EINVAL` without a context, `EIO` if the device was removed.
pub(super) fn query(
    _call: &Call<'_>,
    context: &Ucontext,
    _request: c::ib_uverbs_query_device,
) -> Result<c::ib_uverbs_query_device_resp> {
    let device = context.device();
    Ok(attributes(device, device.attrs()))
}

/// `IB_USER_VERBS_EX_CMD_QUERY_DEVICE`: the present attributes, from the driver.
///
/// # Errors
///
/// `EINVAL` without a context or for unknown bits, `EIO` if the device was removed, and those of the driver.
pub(super) fn query_extended(
    call: &Call<'_>,
    context: &Ucontext,
    request: c::ib_uverbs_ex_query_device,
) -> Result<c::ib_uverbs_ex_query_device_resp> {
    let device = context.device();
    if request.comp_mask != 0 || request.reserved != 0 {
        return Err(EINVAL);
    }
    let mut attr: c::ib_device_attr = pin_init::zeroed();
    device.driver_query_device_user(&mut attr, call.udata(), call.sleep)?;
    let mut response: c::ib_uverbs_ex_query_device_resp = zeroed();
    response.base = attributes(device, &attr);
    response.response_length = call.response_length::<c::ib_uverbs_ex_query_device_resp>();
    let (odp, per) = (&attr.odp_caps, &mut response.odp_caps.per_transport_caps);
    per.rc_odp_caps = odp.per_transport_caps.rc_odp_caps;
    per.uc_odp_caps = odp.per_transport_caps.uc_odp_caps;
    per.ud_odp_caps = odp.per_transport_caps.ud_odp_caps;
    response.odp_caps.general_caps = odp.general_caps;
    response.xrc_odp_caps = odp.per_transport_caps.xrc_odp_caps;
    response.timestamp_mask = attr.timestamp_mask;
    response.hca_core_clock = attr.hca_core_clock;
    response.device_cap_flags_ex = attr.device_cap_flags;
    if device.bounces_dma() {
        response.device_cap_flags_ex |= c::IB_UVERBS_DEVICE_CC_DMA_BOUNCE as u64;
    }
    let (rss, caps) = (&attr.rss_caps, &mut response.rss_caps);
    caps.supported_qpts = rss.supported_qpts;
    caps.max_rwq_indirection_tables = rss.max_rwq_indirection_tables;
    caps.max_rwq_indirection_table_size = rss.max_rwq_indirection_table_size;
    response.max_wq_type_rq = attr.max_wq_type_rq;
    response.raw_packet_caps = attr.raw_packet_caps;
    let (tm, caps) = (&attr.tm_caps, &mut response.tm_caps);
    caps.max_rndv_hdr_size = tm.max_rndv_hdr_size;
    caps.max_num_tags = tm.max_num_tags;
    caps.max_ops = tm.max_ops;
    caps.max_sge = tm.max_sge;
    caps.flags = tm.flags;
    let caps = &mut response.cq_moderation_caps;
    caps.max_cq_moderation_count = attr.cq_caps.max_cq_moderation_count;
    caps.max_cq_moderation_period = attr.cq_caps.max_cq_moderation_period;
    response.max_dm_size = attr.max_dm_size;
    Ok(response)
}

/// The attributes of a port for user space.
pub(crate) fn port_response(
    device: &Device,
    port: u32,
    attr: &c::ib_port_attr,
) -> c::ib_uverbs_query_port_resp {
    let ip_gids = c::ib_port_attr::ip_gids(attr) != 0;
    // Only the ABI of user space defines this bit; all others are those of PortInfo.
    let mut caps = attr.port_cap_flags & !c::IB_UVERBS_PCF_IP_BASED_GIDS;
    if ip_gids {
        caps |= c::IB_UVERBS_PCF_IP_BASED_GIDS;
    }
    let needs_route = device.port_caps(port) & c::RDMA_CORE_PORT_IB_GRH_REQUIRED != 0;
    let long_lids = device.has_opa_addresses(port);
    c::ib_uverbs_query_port_resp {
        port_cap_flags: caps,
        max_msg_sz: attr.max_msg_sz,
        bad_pkey_cntr: attr.bad_pkey_cntr,
        qkey_viol_cntr: attr.qkey_viol_cntr,
        gid_tbl_len: attr.gid_tbl_len as u32,
        pkey_tbl_len: attr.pkey_tbl_len,
        lid: short_lid(attr.lid, long_lids),
        sm_lid: short_lid(attr.sm_lid, long_lids),
        state: attr.state as u8,
        max_mtu: attr.max_mtu as u8,
        active_mtu: attr.active_mtu as u8,
        lmc: attr.lmc,
        max_vl_num: attr.max_vl_num,
        sm_sl: attr.sm_sl,
        subnet_timeout: attr.subnet_timeout,
        init_type_reply: attr.init_type_reply,
        active_width: attr.active_width,
        active_speed: attr.active_speed.min(c::IB_SPEED_NDR as u16) as u8,
        phys_state: attr.phys_state,
        link_layer: verbs::link_layer(device, port) as u8,
        flags: if needs_route {
            c::IB_UVERBS_QPF_GRH_REQUIRED as u8
        } else {
            0
        },
        ..zeroed()
    }
}

/// A LID in 16 bits; 0 for a longer one of an OPA fabric.
pub(super) fn short_lid(lid: u32, long_lids: bool) -> u16 {
    const MULTICAST: u32 = 0xc000;
    if long_lids && lid >= MULTICAST {
        return 0;
    }
    lid as u16
}

/// `IB_USER_VERBS_CMD_QUERY_PORT`.
///
/// # Errors
///
/// `EINVAL` without a context or for an invalid port, `EIO` if the device was removed, and those of the driver.
pub(super) fn query_port(
    call: &Call<'_>,
    context: &Ucontext,
    request: c::ib_uverbs_query_port,
) -> Result<c::ib_uverbs_query_port_resp> {
    let device = context.device();
    let port = request.port_num.into();
    let attr = verbs::query_port(device, port, call.sleep)?;
    Ok(port_response(device, port, &attr))
}
