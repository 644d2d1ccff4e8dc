// SPDX-License-Identifier: GPL-2.0

//! Stands for `comp_cntr.rs` where the kernel's headers have no completion counters: there are none.

use crate::{core::Device, MaySleep};

impl Device {
    /// The most objects of the kind, of which `SUMMARY` tells; 0 if there is no limit.
    pub fn max_comp_cntrs(&self, _sleep: &MaySleep) -> u32 {
        0
    }
}
