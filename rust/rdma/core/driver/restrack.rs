// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for the driver's attributes of tracked objects: `fill_res_*_entry`.
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
                // SAFETY: The object belongs to the device, and the message is under construction.
                Some(to_result(unsafe { call(writer.as_raw(), object.as_raw()) }))
            }
        )*}
    };
}
fill! {
    /// Adds the driver's attributes of a memory region. `None` where the driver lacks the method.
    fill_mr: Mr = fill_res_mr_entry;
    /// Adds the raw device data of a memory region.
    fill_mr_raw: Mr = fill_res_mr_entry_raw;
    /// Adds the statistics of a memory region.
    fill_mr_stat: Mr = fill_stat_mr_entry;
    /// Adds the driver's attributes of a completion queue.
    fill_cq: Cq = fill_res_cq_entry;
    /// Adds the raw device data of a completion queue.
    fill_cq_raw: Cq = fill_res_cq_entry_raw;
    /// Adds the driver's attributes of a queue pair.
    fill_qp: Qp = fill_res_qp_entry;
    /// Adds the raw device data of a queue pair.
    fill_qp_raw: Qp = fill_res_qp_entry_raw;
    /// Adds the driver's attributes of a shared receive queue.
    fill_srq: Srq = fill_res_srq_entry;
    /// Adds the raw device data of a shared receive queue.
    fill_srq_raw: Srq = fill_res_srq_entry_raw;
}

impl Device {
    /// Adds the driver's attributes of a connection manager identifier.
    pub fn fill_cm_id(&self, object: &CmId, writer: &mut Writer<'_>) -> Option<Result> {
        let call = op!(self, fill_res_cm_id_entry)?;
        // SAFETY: The identifier belongs to the device, and the message is under construction.
        Some(to_result(unsafe {
            call(writer.as_raw(), object.as_raw().cast())
        }))
    }
}
