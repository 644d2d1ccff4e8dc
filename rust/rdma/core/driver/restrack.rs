// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for its own details of objects in `rdma resource`: `fill_res_*_entry`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*};
use kernel_ext::net::netlink::Writer;

use crate::core::{restrack::CmId, Cq, Device, Mr, Qp, Srq};

macro_rules! fill {
    ($($(#[$attr:meta])* $name:ident: $view:ty = $op:ident;)*) => {
        impl Device {$(
            $(#[$attr])*
            pub fn $name(&self, object: &$view, writer: &mut Writer<'_>) -> Option<Result> {
                let call = op!(self, $op)?;
                // SAFETY: The object is one of the device's, and the message is being written.
                Some(to_result(unsafe { call(writer.as_raw(), object.as_raw()) }))
            }
        )*}
    };
}
fill! {
    /// Puts what the driver tells of a memory region. `None` where it tells nothing.
    fill_mr: Mr = fill_res_mr_entry;
    /// Puts what the device itself keeps of a memory region.
    fill_mr_raw: Mr = fill_res_mr_entry_raw;
    /// Puts what a memory region has counted.
    fill_mr_stat: Mr = fill_stat_mr_entry;
    /// Puts what the driver tells of a completion queue.
    fill_cq: Cq = fill_res_cq_entry;
    /// Puts what the device itself keeps of a completion queue.
    fill_cq_raw: Cq = fill_res_cq_entry_raw;
    /// Puts what the driver tells of a queue pair.
    fill_qp: Qp = fill_res_qp_entry;
    /// Puts what the device itself keeps of a queue pair.
    fill_qp_raw: Qp = fill_res_qp_entry_raw;
    /// Puts what the driver tells of a shared receive queue.
    fill_srq: Srq = fill_res_srq_entry;
    /// Puts what the device itself keeps of a shared receive queue.
    fill_srq_raw: Srq = fill_res_srq_entry_raw;
}

impl Device {
    /// Puts what the driver tells of an identifier of the connection manager.
    pub fn fill_cm_id(&self, object: &CmId, writer: &mut Writer<'_>) -> Option<Result> {
        let call = op!(self, fill_res_cm_id_entry)?;
        // SAFETY: The identifier is one of the device's, and the message is being written.
        Some(to_result(unsafe {
            call(writer.as_raw(), object.as_raw().cast())
        }))
    }
}
