// SPDX-License-Identifier: GPL-2.0

//! SA records, packed and unpacked by tables.
//!
//! Any context.
//!
//! C header: `include/rdma/ib_sa.h`. IBTA specification, volume 1, section 15.2.5: PathRecord, ServiceRecord,
//! MCMemberRecord, GUIDInfoRecord; section 13.4.8.1: ClassPortInfo. Omni-Path records are defined only in its headers.

use kernel::{ffi::c_void, prelude::*};
use kernel_ext::{
    bindings::{
        ib_sa_guidinfo_rec, ib_sa_mcmember_rec, sa_path_rec, sa_service_rec, SA_PATH_REC_TYPE_IB,
    },
    export::export,
};
use rdma::abi::pack::{packed, Table};

/// Length of a packed PathRecord, in bytes.
pub(super) const PATH_BYTES: usize = 64;

/// PathRecord.
pub(crate) const PATH: Table<sa_path_rec> = packed! { sa_path_rec: 64 {
    0, 0, 64 [service_id];
    2, 0, 128 [dgid];
    6, 0, 128 [sgid];
    10, 0, 16 [__bindgen_anon_1.ib.dlid];
    10, 16, 16 [__bindgen_anon_1.ib.slid];
    11, 0, 1 [__bindgen_anon_1.ib.raw_traffic];
    11, 1, 3 [];
    11, 4, 20 [flow_label];
    11, 24, 8 [hop_limit];
    12, 0, 8 [traffic_class];
    12, 8, 1 [reversible];
    12, 9, 7 [numb_path];
    12, 16, 16 [pkey];
    13, 0, 12 [qos_class];
    13, 12, 4 [sl];
    13, 16, 2 [mtu_selector];
    13, 18, 6 [mtu];
    13, 24, 2 [rate_selector];
    13, 26, 6 [rate];
    14, 0, 2 [packet_life_time_selector];
    14, 2, 6 [packet_life_time];
    14, 8, 8 [preference];
    14, 16, 48 [];
} };

/// Unpacks an InfiniBand PathRecord.
pub(super) fn unpack_path(bytes: &mut [u8; PATH_BYTES]) -> sa_path_rec {
    let mut path: sa_path_rec = pin_init::zeroed();
    // The buffer has the record's length.
    let _ = PATH.unpack(bytes, &mut path);
    path.rec_type = SA_PATH_REC_TYPE_IB;
    path
}

/// ServiceRecord.
pub(crate) const SERVICE: Table<sa_service_rec> = packed! { sa_service_rec: 176 {
    0, 0, 64 [id];
    2, 0, 128 [gid];
    6, 0, 16 [pkey];
    6, 16, 16 [];
    7, 0, 32 [lease];
    8, 0, 128 [key];
    12, 0, 512 [name];
    28, 0, 128 [data_8];
    32, 0, 128 [data_16];
    36, 0, 128 [data_32];
    40, 0, 128 [data_64];
} };

/// PathRecord of Omni-Path.
pub(crate) const OPA_PATH: Table<sa_path_rec> = packed! { sa_path_rec: 64 {
    0, 0, 64 [service_id];
    2, 0, 128 [dgid];
    6, 0, 128 [sgid];
    10, 0, 32 [__bindgen_anon_1.opa.dlid];
    11, 0, 32 [__bindgen_anon_1.opa.slid];
    12, 0, 1 [__bindgen_anon_1.opa.raw_traffic];
    12, 1, 3 [];
    12, 4, 20 [flow_label];
    12, 24, 8 [hop_limit];
    13, 0, 8 [traffic_class];
    13, 8, 1 [reversible];
    13, 9, 7 [numb_path];
    13, 16, 16 [pkey];
    14, 0, 1 [__bindgen_anon_1.opa.l2_8B];
    14, 1, 1 [__bindgen_anon_1.opa.l2_10B];
    14, 2, 1 [__bindgen_anon_1.opa.l2_9B];
    14, 3, 1 [__bindgen_anon_1.opa.l2_16B];
    14, 4, 2 [];
    14, 6, 2 [__bindgen_anon_1.opa.qos_type];
    14, 8, 8 [__bindgen_anon_1.opa.qos_priority];
    14, 16, 3 [];
    14, 19, 5 [sl];
    14, 24, 8 [];
    15, 0, 2 [mtu_selector];
    15, 2, 6 [mtu];
    15, 8, 2 [rate_selector];
    15, 10, 6 [rate];
    15, 16, 2 [packet_life_time_selector];
    15, 18, 6 [packet_life_time];
    15, 24, 8 [preference];
} };

/// MCMemberRecord.
pub(crate) const MCMEMBER: Table<ib_sa_mcmember_rec> = packed! { ib_sa_mcmember_rec: 52 {
    0, 0, 128 [mgid];
    4, 0, 128 [port_gid];
    8, 0, 32 [qkey];
    9, 0, 16 [mlid];
    9, 16, 2 [mtu_selector];
    9, 18, 6 [mtu];
    9, 24, 8 [traffic_class];
    10, 0, 16 [pkey];
    10, 16, 2 [rate_selector];
    10, 18, 6 [rate];
    10, 24, 2 [packet_life_time_selector];
    10, 26, 6 [packet_life_time];
    11, 0, 4 [sl];
    11, 4, 20 [flow_label];
    11, 24, 8 [hop_limit];
    12, 0, 4 [scope];
    12, 4, 4 [join_state];
    12, 8, 1 [proxy_join];
    12, 9, 23 [];
} };

/// GUIDInfoRecord.
pub(crate) const GUID_INFO: Table<ib_sa_guidinfo_rec> = packed! { ib_sa_guidinfo_rec: 72 {
    0, 0, 16 [lid];
    0, 16, 8 [block_num];
    0, 24, 8 [res1];
    1, 0, 32 [res2];
    2, 0, 512 [guid_info_list];
} };

/// The part of ClassPortInfo that is used.
#[derive(Clone, Copy, Default, Zeroable)]
#[repr(C)]
pub(crate) struct ClassPortInfo {
    /// 27 bits of capabilities, and the response time.
    pub(crate) cap_mask2_resp_time: u32,
}

/// The part of ClassPortInfo that InfiniBand and Omni-Path have in common.
pub(crate) const CLASS_PORT_INFO: Table<ClassPortInfo> = packed! { ClassPortInfo: 8 {
    1, 0, 32 [cap_mask2_resp_time];
} };

/// The buffer of a packed record.
///
/// # Safety
///
/// `raw` has room for it, and is ours.
unsafe fn bytes<'a, T>(table: &Table<T>, raw: *mut c_void) -> &'a mut [u8] {
    // SAFETY: By the safety requirements.
    unsafe { core::slice::from_raw_parts_mut(raw.cast(), table.length()) }
}

/// Packs a path record.
///
/// # Safety
///
/// There is room for a PathRecord at `attribute`.
#[export]
unsafe extern "C" fn ib_sa_pack_path(rec: *mut sa_path_rec, attribute: *mut c_void) {
    // SAFETY: By the safety requirements. There is as much room as is needed.
    unsafe {
        let _ = PATH.pack(&*rec, bytes(&PATH, attribute));
    }
}

/// Unpacks an InfiniBand path record. Fields that the PathRecord does not have are left unchanged.
///
/// # Safety
///
/// There is a PathRecord at `attribute`.
#[export]
unsafe extern "C" fn ib_sa_unpack_path(attribute: *mut c_void, rec: *mut sa_path_rec) {
    // SAFETY: By the safety requirements. There are as many bytes as are needed.
    unsafe {
        let _ = PATH.unpack(bytes(&PATH, attribute), &mut *rec);
    }
}

/// Packs a service record.
///
/// # Safety
///
/// There is room for a ServiceRecord at `attribute`.
#[export]
unsafe extern "C" fn ib_sa_pack_service(rec: *mut sa_service_rec, attribute: *mut c_void) {
    // SAFETY: By the safety requirements. There is as much room as is needed.
    unsafe {
        let _ = SERVICE.pack(&*rec, bytes(&SERVICE, attribute));
    }
}

/// Unpacks a service record.
///
/// # Safety
///
/// There is a ServiceRecord at `attribute`.
#[export]
unsafe extern "C" fn ib_sa_unpack_service(attribute: *mut c_void, rec: *mut sa_service_rec) {
    // SAFETY: By the safety requirements. There are as many bytes as are needed.
    unsafe {
        let _ = SERVICE.unpack(bytes(&SERVICE, attribute), &mut *rec);
    }
}
