// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that keeps GID tables of RoCE ports itself: `add_gid`, `del_gid`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{error::to_result, prelude::*};

use crate::{
    core::{gid::GidEntry, Device},
    MaySleep,
};

impl Device {
    /// Whether the driver is notified of changes to a port's GID table: `rdma_cap_roce_gid_table`.
    #[inline]
    pub fn keeps_gid_table(&self, port: u32) -> bool {
        self.is_roce(port) && op!(self, add_gid).is_some() && op!(self, del_gid).is_some()
    }

    /// Calls the driver's `add_gid` for a new entry, if the driver keeps the port's table.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an entry of another device, `EEXIST` if this was called for the entry before, and those of the driver. After
    /// an error `del_gid` is not called for the entry.
    pub fn driver_add_gid(&self, entry: &GidEntry, _sleep: &MaySleep) -> Result {
        if !core::ptr::eq(entry.device(), self.as_raw()) {
            return Err(EINVAL);
        }
        let (true, Some(call)) = (self.keeps_gid_table(entry.port_num()), op!(self, add_gid))
        else {
            return Ok(());
        };
        // SAFETY: The entry belongs to the device, and the driver may write the context slot.
        entry.add_to_driver(|| to_result(unsafe { call(entry.as_raw(), entry.context_slot()) }))
    }

    /// Calls the driver's `del_gid` for an entry, if the driver has added it.
    pub fn driver_del_gid(&self, entry: &GidEntry, _sleep: &MaySleep) {
        if !core::ptr::eq(entry.device(), self.as_raw()) || !entry.take_from_driver() {
            return;
        }
        if let Some(call) = op!(self, del_gid) {
            // SAFETY: `add_gid` has succeeded for the entry, which belongs to the device, and `take_from_driver` is true once.
            let _ = unsafe { call(entry.as_raw(), entry.context_slot()) };
        }
    }
}
