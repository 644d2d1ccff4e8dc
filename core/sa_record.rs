// SPDX-License-Identifier: GPL-2.0

//! Records of subnet administration that clients pack and unpack: paths and services.
//!
//! Any context.
//!
//! C header: `include/rdma/ib_sa.h`. IBTA specification, volume 1, section 15.2.5: PathRecord, ServiceRecord.

use kernel::ffi::c_void;
use kernel_ext::{
    bindings::{sa_path_rec, sa_service_rec},
    export::export,
};
use rdma::pack::{packed, Table};

/// A path.
const PATH: Table<sa_path_rec> = packed! { sa_path_rec: 64 {
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

/// A service.
const SERVICE: Table<sa_service_rec> = packed! { sa_service_rec: 176 {
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

/// The packed form of a record.
///
/// # Safety
///
/// `raw` has room for it, and is ours.
unsafe fn bytes<'a, T>(table: &Table<T>, raw: *mut c_void) -> &'a mut [u8] {
    // SAFETY: By the safety requirements.
    unsafe { core::slice::from_raw_parts_mut(raw.cast(), table.length()) }
}

/// Packs a path.
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

/// Unpacks a path of InfiniBand. What the PathRecord does not have stays.
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

/// Packs a service.
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

/// Unpacks a service.
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
