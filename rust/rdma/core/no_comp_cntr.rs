// SPDX-License-Identifier: GPL-2.0

//! Stands for `comp_cntr.rs` where the kernel's headers have no completion counters: there are none.

use kernel::prelude::*;
use rdma_bindings::{ib_device, ib_qp};

use super::{object::Fresh, Qp, RestrackEntry};

/// There is none.
pub enum CompCntr {}

impl CompCntr {
    pub(super) fn of_entry(_entry: &RestrackEntry) -> Option<&Self> {
        None
    }

    pub(super) fn raw_device(&self) -> *mut ib_device {
        match *self {}
    }
}

/// The kind of resource tracking and its name, in a list of kinds.
pub const SUMMARY: &[(u32, &CStr)] = &[];

/// No group of members is put before the input of a macro.
macro_rules! with_comp_cntr_ops {
    ($then:ident! { $($input:tt)* }) => {
        $then! { $($input)* }
    };
}
pub(super) use with_comp_cntr_ops;

pub(super) fn begin(_qp: &mut ib_qp) {}

impl Fresh<Qp> {
    /// Ends the use of the counters of a queue pair that the driver has destroyed.
    pub fn release_comp_cntrs(&mut self) {}
}
