// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for counters that queue pairs are bound to, and for optional counters.
//!
//! C header: `include/rdma/rdma_counter.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    error::EOPNOTSUPP,
};

use crate::{
    core::{stats::HwCounters, Counter, Device, Qp},
    MaySleep,
};

impl Device {
    /// Whether queue pairs can have counters.
    pub fn has_counters(&self) -> bool {
        op!(self, counter_dealloc).is_some() && op!(self, counter_alloc_stats).is_some()
    }

    /// Whether there are counters of ports that can be asked for.
    pub fn has_port_stats(&self) -> bool {
        op!(self, alloc_hw_port_stats).is_some() && op!(self, get_hw_stats).is_some()
    }

    /// Whether optional counters can be switched on and off.
    pub fn has_modify_hw_stat(&self) -> bool {
        op!(self, modify_hw_stat).is_some()
    }

    /// Has the driver switch an optional counter of a port on or off.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver has none, and what it answers.
    pub fn driver_modify_hw_stat(
        &self,
        port: u32,
        nth: u32,
        on: bool,
        _sleep: &MaySleep,
    ) -> Result {
        let call = op!(self, modify_hw_stat).ok_or(EOPNOTSUPP)?;
        // SAFETY: The device is there, and has the port.
        to_result(unsafe { call(self.as_raw(), port, nth, on) })
    }
}

/// Locks a counter, as drivers expect in `counter_bind_qp`, `counter_unbind_qp` and `counter_update_stats`.
fn lock<'a>(counter: &'a Counter, sleep: &MaySleep) -> CMutexGuard<'a> {
    // SAFETY: The mutex was initialised with the counter, and stays as long.
    unsafe { CMutex::from_raw(&raw mut (*counter.as_raw()).lock) }.lock(sleep)
}

impl Counter {
    /// Lets the driver prepare its part of a new counter.
    pub(crate) fn driver_init(&self, _sleep: &MaySleep) {
        if let Some(call) = op!(self.device(), counter_init) {
            // SAFETY: The memory has the driver's size.
            unsafe { call(self.as_raw()) };
        }
    }

    /// Has the driver allocate the values of a new counter.
    pub(crate) fn driver_alloc_stats(&self, _sleep: &MaySleep) -> Option<HwCounters> {
        let call = op!(self.device(), counter_alloc_stats)?;
        // SAFETY: The driver has prepared the counter.
        let raw = unsafe { call(self.as_raw()) };
        // SAFETY: The driver has allocated them for the core. The driver's names are constant.
        NonNull::new(raw).map(|raw| unsafe { HwCounters::from_raw(raw) })
    }

    /// Has the driver bind a queue pair to the counter, which stays until that is undone. With the first one the driver
    /// makes the counter in the device, and gives it its number.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is bound already, `EOPNOTSUPP` where it cannot be, and what the driver answers.
    ///
    /// # Safety
    ///
    /// Both are of one device, and the counter stays as long as the queue pair is bound to it.
    pub unsafe fn driver_bind(&self, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
        if qp.has_counter() {
            return Err(EINVAL);
        }
        let call = op!(self.device(), counter_bind_qp).ok_or(EOPNOTSUPP)?;
        let _locked = lock(self, sleep);
        // SAFETY: By the safety requirements.
        to_result(unsafe { call(self.as_raw(), qp.as_raw(), port) })
    }

    /// Has the driver undo that.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound to it, `EOPNOTSUPP` where that cannot be undone, and what the driver
    /// answers.
    pub fn driver_unbind(&self, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
        if !qp.counter_is(self) {
            return Err(EINVAL);
        }
        let call = op!(self.device(), counter_unbind_qp).ok_or(EOPNOTSUPP)?;
        let _locked = lock(self, sleep);
        // SAFETY: The queue pair is bound to the counter, which is there.
        to_result(unsafe { call(qp.as_raw(), port) })
    }

    /// Has the driver bring the values up to date.
    ///
    /// # Errors
    ///
    /// `EINVAL` where it cannot, and what it answers.
    pub fn driver_update(&self, sleep: &MaySleep) -> Result {
        let call = op!(self.device(), counter_update_stats).ok_or(EINVAL)?;
        let _locked = lock(self, sleep);
        // SAFETY: The counter is there, and has its values.
        to_result(unsafe { call(self.as_raw()) })
    }

    /// Has the driver take the counter out of the device. No queue pair is bound to it any more.
    ///
    /// # Errors
    ///
    /// What the driver answers: the counter goes all the same.
    pub fn driver_dealloc(&self, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), counter_dealloc).ok_or(EOPNOTSUPP)?;
        // SAFETY: The counter is there.
        to_result(unsafe { call(self.as_raw()) })
    }
}
