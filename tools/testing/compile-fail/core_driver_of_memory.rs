// SPDX-License-Identifier: GPL-2.0
// error: no method named `driver_query_pkey` found for reference `&ARef<DeviceMemory>`

//! The driver of a device is called by a reference that keeps the memory of the device alone.

use kernel::{prelude::*, sync::aref::ARef};
use rdma::{core::DeviceMemory, MaySleep};

/// Queries the first P_Key of port 1.
pub fn query(device: &ARef<DeviceMemory>, sleep: &MaySleep) -> Result<u16> {
    device.driver_query_pkey(1, 0, sleep)
}
