// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for completion counters.
//!
//! For kernels whose headers have them: `has_comp_cntr` of `rust/Makefile.has`. For others `no_comp_cntr.rs` stands here.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::sync::atomic::Ordering;

use kernel::{error::to_result, prelude::*};
use kernel_ext::error::EOPNOTSUPP;
use rdma_bindings::{ib_comp_cntr_caps, ib_qp_attach_comp_cntr_attr};

use super::objects::{create, destroy};
use crate::{
    core::{
        comp_cntr::CompCntr,
        object::{Created, Destroyed, Failed, Fresh, Owned},
        AttrBundle, Device, Qp,
    },
    MaySleep,
};

impl Device {
    /// The capabilities of completion counters.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the method, and those of the driver.
    pub fn comp_cntr_caps(
        &self,
        command: Option<&AttrBundle>,
        _sleep: &MaySleep,
    ) -> Result<ib_comp_cntr_caps> {
        let call = op!(self, query_comp_cntr_caps).ok_or(EOPNOTSUPP)?;
        let mut caps: ib_comp_cntr_caps = pin_init::zeroed();
        let command = command.map_or(core::ptr::null_mut(), AttrBundle::as_raw);
        // SAFETY: The structures are valid; the core asks without a command.
        to_result(unsafe { call(self.as_raw(), &mut caps, command) })?;
        Ok(caps)
    }

    /// The most objects of the kind, of which `SUMMARY` tells; 0 if there is no limit.
    pub fn max_comp_cntrs(&self, sleep: &MaySleep) -> u32 {
        self.comp_cntr_caps(None, sleep)
            .map_or(0, |caps| caps.max_counters)
    }

    /// Whether user space can create completion counters.
    pub fn has_comp_cntr(&self) -> bool {
        op!(self, create_comp_cntr).is_some()
            && op!(self, destroy_comp_cntr).is_some()
            && op!(self, qp_attach_comp_cntr).is_some()
    }
}

impl CompCntr {
    /// Sets a value of the counter, or adds to it: `enum ib_comp_cntr_entry`, `enum ib_comp_cntr_modify_op`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the method, and those of the driver.
    pub fn modify(&self, entry: u32, op: u32, value: u64, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), modify_comp_cntr).ok_or(EOPNOTSUPP)?;
        // SAFETY: The counter is valid; the driver checks the numbers.
        to_result(unsafe { call(self.as_raw(), entry, op, value) })
    }

    /// Whether the driver can modify counters.
    pub fn can_modify(&self) -> bool {
        op!(self.device(), modify_comp_cntr).is_some()
    }

    /// Whether the driver can read counters.
    pub fn can_read(&self) -> bool {
        op!(self.device(), read_comp_cntr).is_some()
    }

    /// Reads a value of the counter: `enum ib_comp_cntr_entry`.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the method, and those of the driver.
    pub fn read(&self, entry: u32, _sleep: &MaySleep) -> Result<u64> {
        let call = op!(self.device(), read_comp_cntr).ok_or(EOPNOTSUPP)?;
        let mut value = 0;
        // SAFETY: The counter is valid; the driver checks the number.
        to_result(unsafe { call(self.as_raw(), entry, &mut value) })?;
        Ok(value)
    }
}

impl Fresh<CompCntr> {
    /// Lets the driver create the counter.
    pub fn driver_create(self, command: &AttrBundle, _sleep: &MaySleep) -> Created<CompCntr> {
        create!(self.create_comp_cntr(command.as_raw()))
    }
}

impl Owned<CompCntr> {
    /// Lets the driver destroy the counter.
    pub fn driver_destroy(self, _sleep: &MaySleep) -> Destroyed<CompCntr> {
        destroy!(self.destroy_comp_cntr())
    }
}

impl Qp {
    /// Attaches a completion counter for operations: bits of `enum ib_qp_attach_comp_cntr_op`, not none. It is used until
    /// the queue pair is destroyed.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` without the method; `EINVAL` for a handle of a shared queue pair, no operation, and a counter of another
    /// device; `EBUSY` if one of the operations has a counter already; `ENOMEM`, and those of the driver.
    pub fn attach_comp_cntr(&self, counter: &CompCntr, ops: u32, sleep: &MaySleep) -> Result {
        let call = op!(self.device(), qp_attach_comp_cntr).ok_or(EOPNOTSUPP)?;
        let is_same = core::ptr::eq(self.device(), counter.device());
        if self.is_handle() || ops == 0 || !is_same {
            return Err(EINVAL);
        }
        let taken = self.comp_cntr_ops();
        let free = |old: u32| (old & ops == 0).then_some(old | ops);
        taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, free)
            .map_err(|_| EBUSY)?;
        let give_back = |_: &Error| {
            taken.fetch_and(!ops, Ordering::Relaxed);
        };
        self.store_comp_cntr(counter, ops, sleep)
            .inspect_err(give_back)?;
        let mut attr = ib_qp_attach_comp_cntr_attr { op_mask: ops };
        // SAFETY: The structures are valid, and of the device whose method is called.
        let attached = unsafe { call(self.as_raw(), counter.as_raw(), &mut attr) };
        to_result(attached)
            .inspect_err(|_| self.erase_comp_cntr(counter, ops))
            .inspect_err(give_back)
    }
}
