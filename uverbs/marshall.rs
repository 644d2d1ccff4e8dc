// SPDX-License-Identifier: GPL-2.0

//! Conversion of structures of ib_core to those of user space.
//!
//! LIDs of user space have 16 bits. Longer ones of an OPA fabric are put into a GID.
//!
//! C header: `include/rdma/ib_marshall.h`.

use kernel_ext::{
    bindings::{
        ib_qp_attr, ib_user_path_rec, ib_uverbs_ah_attr, ib_uverbs_qp_attr, rdma_ah_attr,
        sa_path_rec, OPA_SPECIAL_OUI,
    },
    entry::Out,
    export::export,
};
use rdma::{
    core::{
        user::{UserPath, UserRoute},
        Device,
    },
    Gid, MaySleep,
};
use rdma_uverbs::records::{self, PathLids};

/// The permissive LID (`IB_LID_PERMISSIVE`).
const PERMISSIVE_LID: u32 = 0xffff;
/// The first multicast LID (`IB_MULTICAST_LID_BASE`): from here on LIDs of an OPA fabric do not fit into 16 bits.
const FIRST_MULTICAST_LID: u32 = 0xc000;

/// The interface ID of a GID that stands for a LID of an OPA fabric.
fn opa_interface_id(lid: u32) -> [u8; 8] {
    (u64::from(OPA_SPECIAL_OUI) << 40 | u64::from(lid)).to_be_bytes()
}

fn gid_of(prefix: [u8; 8], interface: [u8; 8]) -> Gid {
    let mut gid = [0; 16];
    for (to, from) in gid.iter_mut().zip(prefix.into_iter().chain(interface)) {
        *to = from;
    }
    Gid(gid)
}

/// The route of an address vector; a long LID is put into its GID.
fn path_of(device: &Device, vector: &rdma_ah_attr, sleep: &MaySleep) -> UserPath {
    let path = UserPath::of(vector);
    let Some(dlid) = records::opa_dlid(vector).filter(|&dlid| dlid > PERMISSIVE_LID) else {
        return path;
    };
    let Some(prefix) = records::subnet_prefix(device, vector.port_num, sleep) else {
        return path;
    };
    UserPath {
        route: Some(UserRoute {
            dgid: gid_of(prefix.to_be_bytes(), opa_interface_id(dlid)).0,
            hop_limit: 1,
            ..UserRoute::default()
        }),
        ..path
    }
}

/// Fills in an address vector of user space.
pub(crate) fn copy_path(to: &mut ib_uverbs_ah_attr, path: &UserPath) {
    *to = ib_uverbs_ah_attr {
        dlid: path.dlid,
        sl: path.sl,
        src_path_bits: path.src_path_bits,
        static_rate: path.static_rate,
        is_global: path.route.is_some().into(),
        port_num: path.port_num,
        ..pin_init::zeroed()
    };
    if let Some(route) = path.route {
        to.grh.dgid = route.dgid;
        to.grh.flow_label = route.flow_label;
        to.grh.sgid_index = route.sgid_index;
        to.grh.hop_limit = route.hop_limit;
        to.grh.traffic_class = route.traffic_class;
    }
}

/// Fills in an address vector of user space. May sleep.
#[export]
fn ib_copy_ah_attr_to_user(
    device: &Device,
    dst: Out<'_, ib_uverbs_ah_attr>,
    ah_attr: &mut rdma_ah_attr,
    sleep: &MaySleep,
) {
    copy_path(dst.zeroed(), &path_of(device, ah_attr, sleep));
}

/// Fills in the attributes of a queue pair for user space, but for their mask. May sleep.
#[export]
fn ib_copy_qp_attr_to_user(
    device: &Device,
    dst: &mut ib_uverbs_qp_attr,
    src: &mut ib_qp_attr,
    sleep: &MaySleep,
) {
    *dst = ib_uverbs_qp_attr {
        qp_attr_mask: dst.qp_attr_mask,
        qp_state: src.qp_state,
        cur_qp_state: src.cur_qp_state,
        path_mtu: src.path_mtu,
        path_mig_state: src.path_mig_state,
        qkey: src.qkey,
        rq_psn: src.rq_psn,
        sq_psn: src.sq_psn,
        dest_qp_num: src.dest_qp_num,
        qp_access_flags: src.qp_access_flags as u32,
        max_send_wr: src.cap.max_send_wr,
        max_recv_wr: src.cap.max_recv_wr,
        max_send_sge: src.cap.max_send_sge,
        max_recv_sge: src.cap.max_recv_sge,
        max_inline_data: src.cap.max_inline_data,
        pkey_index: src.pkey_index,
        alt_pkey_index: src.alt_pkey_index,
        en_sqd_async_notify: src.en_sqd_async_notify,
        sq_draining: src.sq_draining,
        max_rd_atomic: src.max_rd_atomic,
        max_dest_rd_atomic: src.max_dest_rd_atomic,
        min_rnr_timer: src.min_rnr_timer,
        port_num: src.port_num as u8,
        timeout: src.timeout,
        retry_cnt: src.retry_cnt,
        rnr_retry: src.rnr_retry,
        alt_port_num: src.alt_port_num as u8,
        alt_timeout: src.alt_timeout,
        ..pin_init::zeroed()
    };
    copy_path(&mut dst.ah_attr, &path_of(device, &src.ah_attr, sleep));
    copy_path(
        &mut dst.alt_ah_attr,
        &path_of(device, &src.alt_ah_attr, sleep),
    );
}

/// Fills in a path record for user space. Any context.
#[export]
fn ib_copy_path_rec_to_user(dst: Out<'_, ib_user_path_rec>, src: &mut sa_path_rec) {
    let lids = PathLids::of(src);
    let (mut dgid, mut sgid) = records::path_gids(src);
    let is_long =
        lids.is_opa && (lids.dlid >= FIRST_MULTICAST_LID || lids.slid >= FIRST_MULTICAST_LID);
    if is_long {
        let with_lid = |gid: Gid, lid| {
            let prefix = gid.0.first_chunk().copied().unwrap_or_default();
            gid_of(prefix, opa_interface_id(lid))
        };
        dgid = with_lid(dgid, lids.dlid);
        sgid = with_lid(sgid, lids.slid);
    }
    let lid = |lid: u32| if is_long { 0 } else { (lid as u16).to_be() };
    dst.set(ib_user_path_rec {
        dgid: dgid.0,
        sgid: sgid.0,
        dlid: lid(lids.dlid),
        slid: lid(lids.slid),
        raw_traffic: lids.raw_traffic.into(),
        flow_label: src.flow_label,
        reversible: src.reversible.into(),
        mtu: src.mtu.into(),
        pkey: src.pkey,
        hop_limit: src.hop_limit,
        traffic_class: src.traffic_class,
        numb_path: src.numb_path,
        sl: src.sl,
        mtu_selector: src.mtu_selector,
        rate_selector: src.rate_selector,
        rate: src.rate,
        packet_life_time_selector: src.packet_life_time_selector,
        packet_life_time: src.packet_life_time,
        preference: src.preference,
    });
}
