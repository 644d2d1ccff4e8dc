// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for the driver's attributes of tracked objects: `fill_res_*_entry`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*};
use kernel_ext::net::netlink::Writer;

use crate::core::{restrack::CmId, Cq, Mr, Qp, Srq};

macro_rules! fill {
    ($($view:ident {$($(#[$attr:meta])* $name:ident = $op:ident;)*})*) => {$(
        impl $view {$(
            $(#[$attr])*
            ///
            /// `None` where the driver lacks the method.
            pub fn $name(&self, writer: &mut Writer<'_>) -> Option<Result> {
                let call = op!(self.device(), $op)?;
                // SAFETY: The object belongs to the device whose method this is, and the message is under construction.
                Some(to_result(unsafe { call(writer.as_raw(), self.as_raw()) }))
            }
        )*}
    )*};
}
fill! {
    Mr {
        /// Adds the driver's attributes of the memory region.
        driver_fill = fill_res_mr_entry;
        /// Adds the raw device data of the memory region.
        driver_fill_raw = fill_res_mr_entry_raw;
        /// Adds the statistics of the memory region.
        driver_fill_stat = fill_stat_mr_entry;
    }
    Cq {
        /// Adds the driver's attributes of the completion queue.
        driver_fill = fill_res_cq_entry;
        /// Adds the raw device data of the completion queue.
        driver_fill_raw = fill_res_cq_entry_raw;
    }
    Qp {
        /// Adds the driver's attributes of the queue pair.
        driver_fill = fill_res_qp_entry;
        /// Adds the raw device data of the queue pair.
        driver_fill_raw = fill_res_qp_entry_raw;
    }
    Srq {
        /// Adds the driver's attributes of the shared receive queue.
        driver_fill = fill_res_srq_entry;
        /// Adds the raw device data of the shared receive queue.
        driver_fill_raw = fill_res_srq_entry_raw;
    }
}

impl CmId {
    /// Adds the driver's attributes of the connection manager identifier.
    ///
    /// `None` where the driver lacks the method, or the identifier has no device.
    pub fn driver_fill(&self, writer: &mut Writer<'_>) -> Option<Result> {
        let call = op!(self.device()?, fill_res_cm_id_entry)?;
        // SAFETY: The identifier belongs to the device whose method this is, and the message is under construction.
        Some(to_result(unsafe {
            call(writer.as_raw(), self.as_raw().cast())
        }))
    }
}
