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
    /// Whether the driver wants to hear of the entries of a port's GID table: `rdma_cap_roce_gid_table`.
    #[inline]
    pub fn keeps_gid_table(&self, port: u32) -> bool {
        self.is_roce(port) && op!(self, add_gid).is_some() && op!(self, del_gid).is_some()
    }

    /// Tells the driver of an entry that is about to come, if it wants to hear of it.
    ///
    /// # Errors
    ///
    /// What the driver answers; then it does not hear of the end of the entry.
    pub fn driver_add_gid(&self, entry: &GidEntry, _sleep: &MaySleep) -> Result {
        let (true, Some(call)) = (self.keeps_gid_table(entry.port_num()), op!(self, add_gid))
        else {
            return Ok(());
        };
        // SAFETY: The entry is one of the device's; the driver may write what it keeps for it.
        to_result(unsafe { call(entry.as_raw(), entry.context_slot()) })
    }

    /// Tells the driver that an entry goes, if it wants to hear of it.
    pub fn driver_del_gid(&self, entry: &GidEntry, _sleep: &MaySleep) {
        let (true, Some(call)) = (self.keeps_gid_table(entry.port_num()), op!(self, del_gid))
        else {
            return;
        };
        // SAFETY: The driver has heard that the entry comes, and hears once that it goes.
        let _ = unsafe { call(entry.as_raw(), entry.context_slot()) };
    }
}
