// SPDX-License-Identifier: GPL-2.0

//! User memory of the current process that is pinned for a device.
//!
//! C header: `include/rdma/ib_umem.h`.

use kernel::prelude::*;
use kernel_ext::{bindings::IB_ACCESS_ON_DEMAND, error::EOPNOTSUPP};
use rdma::{
    core::{
        umem::{
            pin::{may_lock, Pinned},
            AccessFlags,
        },
        Device,
    },
    MaySleep,
};

/// Pins `len` bytes at `address`, and maps them for DMA.
///
/// # Errors
///
/// In this order: `EOPNOTSUPP` for a device without access to a confidential guest's memory; `EINVAL` beyond the end of
/// the address space; `EPERM` if the process may not lock memory; `EOPNOTSUPP` for on-demand paging; `EINVAL` for a
/// length of 0; `ENOMEM` beyond the limit of locked memory; `EFAULT` without a mapping with such access.
pub(crate) fn pin(
    device: &Device,
    address: usize,
    len: usize,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<Pinned> {
    if device.bounces_dma() {
        return Err(EOPNOTSUPP);
    }
    let end = address.checked_add(len).ok_or(EINVAL)?;
    end.checked_next_multiple_of(kernel::page::PAGE_SIZE)
        .ok_or(EINVAL)?;
    if !may_lock() {
        return Err(EPERM);
    }
    if access.has(IB_ACCESS_ON_DEMAND) {
        return Err(EOPNOTSUPP);
    }
    let mut memory = Pinned::new(device, address, len, access, sleep)?;
    if memory.page_count() == 0 || u32::try_from(memory.page_count()).is_err() {
        return Err(EINVAL);
    }
    memory.charge()?;
    memory.pin(sleep)?;
    memory.map(sleep)?;
    Ok(memory)
}
