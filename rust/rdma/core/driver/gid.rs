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
    /// Those of the driver. After an error `del_gid` is not called for the entry.
    pub fn driver_add_gid(&self, entry: &GidEntry, _sleep: &MaySleep) -> Result {
        let (true, Some(call)) = (self.keeps_gid_table(entry.port_num()), op!(self, add_gid))
        else {
            return Ok(());
        };
        // SAFETY: The entry belongs to the device, and the driver may write the context slot.
        to_result(unsafe { call(entry.as_raw(), entry.context_slot()) })
    }

    /// Calls the driver's `del_gid` for an entry, if the driver keeps the port's table.
    pub fn driver_del_gid(&self, entry: &GidEntry, _sleep: &MaySleep) {
        let (true, Some(call)) = (self.keeps_gid_table(entry.port_num()), op!(self, del_gid))
        else {
            return;
        };
        // SAFETY: `add_gid` has succeeded for the entry, and `del_gid` is called once for it.
        let _ = unsafe { call(entry.as_raw(), entry.context_slot()) };
    }
}
