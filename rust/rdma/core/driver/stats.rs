// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for hardware counters and performance management MADs.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::{self, NonNull};

use kernel::prelude::*;
use rdma_bindings::{self as bindings, ib_mad};

use crate::{
    abi::mad::{Mad, MadResult},
    core::{
        stats::{DeviceCounters, HwCounters, HwCountersGuard},
        Device,
    },
    MaySleep,
};

/// The range of a MAD's data, after its common header.
const MAD_DATA: core::ops::RangeFrom<usize> = 24..;

/// The offset of `PortSelect` in the data of a performance management MAD.
///
/// Reference: InfiniBand Architecture Specification, volume 1, 16.1.3.5 (PortCounters).
const PORT_SELECT: usize = 41;

impl Device {
    /// Lets the driver allocate the counters of a port, or with `None` those of the device. Returns `None` where the
    /// driver has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also where the driver's counters have no names.
    pub fn driver_alloc_stats(
        &self,
        port: Option<u32>,
        _sleep: &MaySleep,
    ) -> Option<Result<DeviceCounters>> {
        let raw = match port {
            Some(port) => {
                let call = op!(self, alloc_hw_port_stats)?;
                // SAFETY: `self` is a valid device, and the driver checks the port.
                unsafe { call(self.as_raw(), port) }
            }
            None => {
                let call = op!(self, alloc_hw_device_stats)?;
                // SAFETY: `self` is a valid device.
                unsafe { call(self.as_raw()) }
            }
        };
        let Some(raw) = NonNull::new(raw) else {
            return Some(Err(ENOMEM));
        };
        // SAFETY: The driver has allocated the counters for the core, and their names are constant.
        let stats = unsafe { HwCounters::from_raw(raw) };
        if stats.count() <= 0 || !stats.is_named() {
            return Some(Err(ENOMEM));
        }
        // SAFETY: The driver has just allocated them.
        Some(Ok(unsafe { DeviceCounters::new(stats, self, port) }))
    }

    /// Whether the driver has `process_mad`.
    pub fn has_process_mad(&self) -> bool {
        op!(self, process_mad).is_some()
    }

    /// Gets an attribute of the performance management class from the driver (IBTA volume 1, section 16.1).
    ///
    /// `select` sets `PortSelect` of the request to the port.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver lacks `process_mad`, `EINVAL` where it generates no response, `ENOMEM`.
    pub fn driver_perf_get(
        &self,
        port: u32,
        attribute: u16,
        select: bool,
        _sleep: &MaySleep,
    ) -> Result<PmaResponse> {
        let call = op!(self, process_mad).ok_or(kernel_ext::error::EOPNOTSUPP)?;
        let mut request = KBox::<ib_mad>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        let mut answer = KBox::<ib_mad>::init(pin_init::init_zeroed(), GFP_KERNEL)?;
        request.mad_hdr.base_version = 1;
        request.mad_hdr.mgmt_class = bindings::IB_MGMT_CLASS_PERF_MGMT as u8;
        request.mad_hdr.class_version = 1;
        request.mad_hdr.method = bindings::IB_MGMT_METHOD_GET as u8;
        request.mad_hdr.attr_id = attribute.to_be();
        if select {
            // The field has 8 bits.
            request.data[PORT_SELECT] = port as u8;
        }
        let (mut size, mut pkey_index) = (size_of::<ib_mad>(), 0);
        // SAFETY: Request and answer are valid during the call; the request has no completion and no GRH.
        let ret = unsafe {
            call(
                self.as_raw(),
                bindings::IB_MAD_IGNORE_MKEY as i32,
                port,
                ptr::null(),
                ptr::null(),
                &*request,
                &mut *answer,
                &mut size,
                &mut pkey_index,
            )
        };
        let answered = (MadResult::SUCCESS | MadResult::REPLY).bits();
        if ret as u32 & answered != answered {
            return Err(EINVAL);
        }
        Ok(PmaResponse(answer))
    }
}

impl DeviceCounters {
    /// Lets the driver update the counter `nth`, or all for an index out of range. Returns the number of updated
    /// counters.
    ///
    /// # Errors
    ///
    /// `EINVAL` where the driver lacks the method, where `locked` are other counters, or where these are not those of `device`;
    /// errors of the driver.
    pub fn driver_update(
        &self,
        device: &Device,
        locked: &mut HwCountersGuard<'_>,
        nth: i32,
        _sleep: &MaySleep,
    ) -> Result<i32> {
        let call = op!(device, get_hw_stats).ok_or(EINVAL)?;
        if !locked.is_of(self) || !self.is_of(device) {
            return Err(EINVAL);
        }
        let port = self.port().unwrap_or(0);
        // SAFETY: By the type invariants the counters are those of the device or port, and their lock is held.
        let ret = unsafe { call(device.as_raw(), locked.as_raw(), port, nth) };
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        Ok(ret)
    }
}

/// A response of the performance management class.
pub struct PmaResponse(KBox<ib_mad>);

impl PmaResponse {
    /// `N` bytes at the offset `at` of the attribute, which begins at byte 40 of the data; zeros after its end.
    pub fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let data = Mad::from_raw(&self.0).bytes().get(MAD_DATA);
        let data = data.and_then(|data| data.get(at.checked_add(40)?..));
        let found = data.and_then(|data| data.first_chunk::<N>());
        found.copied().unwrap_or([0; N])
    }
}
