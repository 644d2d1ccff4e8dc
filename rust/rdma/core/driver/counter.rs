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
    core::{
        counter::OwnedCounter,
        stats::{DeviceCounters, HwCounters},
        Counter, Device, Qp,
    },
    MaySleep,
};

impl Device {
    /// Whether queue pairs can have counters.
    pub fn has_counters(&self) -> bool {
        op!(self, counter_dealloc).is_some() && op!(self, counter_alloc_stats).is_some()
    }

    /// Whether ports have hardware counters.
    pub fn has_port_stats(&self) -> bool {
        op!(self, alloc_hw_port_stats).is_some() && op!(self, get_hw_stats).is_some()
    }

    /// Whether optional counters can be enabled and disabled.
    pub fn has_modify_hw_stat(&self) -> bool {
        op!(self, modify_hw_stat).is_some()
    }
}

impl DeviceCounters {
    /// Lets the driver enable or disable an optional counter of the port.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver lacks the method, `EINVAL` for a counter that is not optional, not of a port or not of
    /// `device`, and those of the driver.
    pub fn driver_modify(&self, device: &Device, nth: u32, on: bool, _sleep: &MaySleep) -> Result {
        let call = op!(device, modify_hw_stat).ok_or(EOPNOTSUPP)?;
        let port = self.port().ok_or(EINVAL)?;
        if !self.is_optional(nth) || !self.is_of(device) {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariants the counters are those of the port, and there is such a counter.
        to_result(unsafe { call(device.as_raw(), port, nth, on) })
    }
}

/// Locks a counter, as drivers expect in `counter_bind_qp`, `counter_unbind_qp` and `counter_update_stats`.
fn lock<'a>(counter: &'a Counter, sleep: &MaySleep) -> CMutexGuard<'a> {
    // SAFETY: The mutex was initialised with the counter, and is valid as long.
    unsafe { CMutex::from_raw(&raw mut (*counter.as_raw()).lock) }.lock(sleep)
}

impl Counter {
    /// Lets the driver prepare its part of a new counter.
    pub(crate) fn driver_init(&self, _sleep: &MaySleep) {
        if let Some(call) = op!(self.device(), counter_init) {
            // SAFETY: The memory has the size that the driver declares.
            unsafe { call(self.as_raw()) };
        }
    }

    /// Lets the driver allocate the values of a new counter.
    pub(crate) fn driver_alloc_stats(&self, _sleep: &MaySleep) -> Option<HwCounters> {
        let call = op!(self.device(), counter_alloc_stats)?;
        // SAFETY: The driver has initialised its part of the counter.
        let raw = unsafe { call(self.as_raw()) };
        // SAFETY: The driver has allocated the values for the core, and their names are constant.
        NonNull::new(raw).map(|raw| unsafe { HwCounters::from_raw(raw) })
    }

    /// Lets the driver bind a queue pair to the counter. With the first one the driver allocates the counter in the
    /// device, and sets its number.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is bound already, `EOPNOTSUPP` where the driver lacks the method, and those of the
    /// driver.
    ///
    /// # Safety
    ///
    /// Both belong to one device, and the counter is valid as long as the queue pair is bound to it.
    pub unsafe fn driver_bind(&self, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
        if qp.has_counter() {
            return Err(EINVAL);
        }
        let call = op!(self.device(), counter_bind_qp).ok_or(EOPNOTSUPP)?;
        let _locked = lock(self, sleep);
        // SAFETY: By the safety requirements.
        to_result(unsafe { call(self.as_raw(), qp.as_raw(), port) })
    }

    /// Lets the driver unbind a queue pair from the counter.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound to it, `EOPNOTSUPP` where the driver lacks the method, and those of the
    /// driver.
    pub fn driver_unbind(&self, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
        if !qp.counter_is(self) {
            return Err(EINVAL);
        }
        let call = op!(self.device(), counter_unbind_qp).ok_or(EOPNOTSUPP)?;
        let _locked = lock(self, sleep);
        // SAFETY: The queue pair is bound to the counter, and both are valid.
        to_result(unsafe { call(qp.as_raw(), port) })
    }

    /// As [`Self::driver_unbind`], for a queue pair that is being destroyed: if the driver fails, the queue pair is not bound to
    /// the counter any more all the same.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not bound to it.
    pub fn driver_unbind_last(&self, qp: &Qp, port: u32, sleep: &MaySleep) -> Result {
        if !qp.counter_is(self) {
            return Err(EINVAL);
        }
        if self.driver_unbind(qp, port, sleep).is_err() {
            qp.leave_counter(self);
        }
        Ok(())
    }

    /// Lets the driver update the values.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the driver lacks the method, and those of the driver.
    pub fn driver_update(&self, sleep: &MaySleep) -> Result {
        let call = op!(self.device(), counter_update_stats).ok_or(EINVAL)?;
        let _locked = lock(self, sleep);
        // SAFETY: The counter is valid, and has its values.
        to_result(unsafe { call(self.as_raw()) })
    }
}

impl OwnedCounter {
    /// Lets the driver free the counter in the device, and drops it.
    ///
    /// # Errors
    ///
    /// Those of the driver; the counter is freed all the same.
    pub fn driver_dealloc(self, _sleep: &MaySleep) -> Result {
        let call = op!(self.device(), counter_dealloc).ok_or(EOPNOTSUPP)?;
        // SAFETY: The counter is valid, and given up. By the contract of `driver_bind` no queue pair is bound to it.
        to_result(unsafe { call(self.as_raw()) })
    }
}
