// SPDX-License-Identifier: GPL-2.0

//! Memory regions of user space.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::error::EOPNOTSUPP;
use rdma::{
    core::{
        driver::user::Rereg,
        mr::NewMr,
        object::{Owned, UdataView},
        uobject::ObjectLink,
        AttrBundle, Device, Dm, Dmah, Mr, Pd,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_sge};

use crate::{lookup::WriteLocked, verbs::track};

/// All bits of `enum ib_access_flags`, with those that a device may ignore.
pub const ACCESS_SUPPORTED: u32 = bindings::IB_ACCESS_SUPPORTED;

/// Checks access flags, `enum ib_access_flags`, against what a device supports.
///
/// # Errors
///
/// `EINVAL` for unknown bits, and for remote writing or atomics without local writing; `EOPNOTSUPP` for what the device does not
/// support.
pub fn check_access(device: &Device, access: u32) -> Result {
    const WRITES: u32 = bindings::IB_ACCESS_REMOTE_ATOMIC | bindings::IB_ACCESS_REMOTE_WRITE;
    let has = |flag: u32| access & flag != 0;
    if has(WRITES) && !has(bindings::IB_ACCESS_LOCAL_WRITE) {
        return Err(EINVAL);
    }
    if has(!ACCESS_SUPPORTED) {
        return Err(EINVAL);
    }
    let attrs = device.attrs();
    let needs = [
        (
            bindings::IB_ACCESS_ON_DEMAND,
            attrs.kernel_cap_flags & u64::from(bindings::IBK_ON_DEMAND_PAGING),
        ),
        (
            bindings::IB_ACCESS_FLUSH_GLOBAL,
            attrs.device_cap_flags & bindings::IB_DEVICE_FLUSH_GLOBAL as u64,
        ),
        (
            bindings::IB_ACCESS_FLUSH_PERSISTENT,
            attrs.device_cap_flags & bindings::IB_DEVICE_FLUSH_PERSISTENT as u64,
        ),
    ];
    if needs.iter().any(|&(flag, cap)| has(flag) && cap == 0) {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// Completes the core's part of a region that a driver has just created.
fn account(mut mr: NewMr<'_>, kind: u32, object: ObjectLink<'_>) -> Owned<Mr> {
    track::set_owner(&mut mr);
    let mr = mr.into_object(kind, object);
    track::add(&mr);
    mr
}

/// The address range of a region.
#[derive(Clone, Copy)]
pub struct Range {
    /// The address in the current process, or the offset into a DMA buffer.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The I/O virtual address, which peers and work requests use.
    pub iova: u64,
}

impl Range {
    /// Whether both addresses have the same offset in a page, which drivers require.
    pub fn is_aligned(&self) -> bool {
        const IN_PAGE: u64 = kernel::page::PAGE_SIZE as u64 - 1;
        self.start & IN_PAGE == self.iova & IN_PAGE
    }
}

/// Registers memory of the current process for an object that is being created.
///
/// # Errors
///
/// Those of the driver.
pub fn reg_user(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    pd: &Pd,
    range: Range,
    access: u32,
    dmah: Option<&Dmah>,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    let Range {
        start,
        length,
        iova,
    } = range;
    let udata = command.driver_udata();
    let mr = pd.driver_reg_user((start, length, iova), access, dmah, Some(udata), sleep)?;
    let mr = account(mr, bindings::IB_MR_TYPE_USER, object);
    mr.set_range(iova, length);
    if let Some(dmah) = dmah {
        // SAFETY: The driver has just created the region, and its object is not complete yet.
        unsafe { mr.set_dmah(dmah) };
    }
    Ok(mr)
}

/// The changes of a re-registration.
pub struct Change {
    /// `enum ib_mr_rereg_flags`: which of these are to be used.
    pub flags: u32,
    /// The address range.
    pub range: Range,
    /// `enum ib_access_flags`.
    pub access: u32,
}

/// Reregisters a region (`rereg_user_mr`). `to` is the protection domain that this moves it to, if any. Returns a region that
/// replaces the old one, if the driver has created one.
///
/// # Errors
///
/// Those of the driver.
pub fn rereg<'a>(
    old: &'a mut WriteLocked<'_, Mr>,
    change: &Change,
    to: Option<&'a Pd>,
    udata: &UdataView,
    sleep: &MaySleep,
) -> Result<Option<NewMr<'a>>> {
    // SAFETY: `old` is locked for writing, and borrowed mutably as long as the result is used.
    let former = unsafe { old.pd() };
    let rereg = Rereg {
        flags: change.flags,
        start: change.range.start,
        length: change.range.length,
        iova: change.range.iova,
        access: change.access,
        pd: to.unwrap_or(former),
    };
    // SAFETY: `old` is locked for writing.
    let made = unsafe { old.driver_rereg_user(&rereg, udata, sleep)? };
    if made.is_some() {
        return Ok(made);
    }
    if let Some(pd) = to {
        // SAFETY: `old` is locked for writing, and `former` counts it, even if the driver has set the new domain already.
        unsafe { old.set_pd(former, pd) };
        track::sync(&**old, sleep);
    }
    if change.flags & bindings::IB_MR_REREG_TRANS != 0 {
        old.set_range(change.range.iova, change.range.length);
    }
    Ok(None)
}

/// Registers a range of a DMA buffer, by its file descriptor, for an object that is being created.
///
/// # Errors
///
/// `EOPNOTSUPP`, and those of the driver.
pub fn reg_dmabuf(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    pd: &Pd,
    (fd, range): (c_int, Range),
    access: u32,
    dmah: Option<&Dmah>,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    let range = (range.start, range.length, range.iova);
    let mr = pd.driver_reg_dmabuf(range, fd, access, dmah, command, sleep)?;
    let mr = account(mr, bindings::IB_MR_TYPE_USER, object);
    if let Some(dmah) = dmah {
        // SAFETY: The driver has just created the region, and its object is not complete yet.
        unsafe { mr.set_dmah(dmah) };
    }
    Ok(mr)
}

/// Registers `length` bytes of device memory from `offset` on, for an object that is being created.
///
/// # Errors
///
/// `EINVAL` for a range outside the memory; `EOPNOTSUPP`, and those of the driver.
pub fn reg_dm(
    command: &AttrBundle,
    object: ObjectLink<'_>,
    pd: &Pd,
    dm: &Dm,
    (offset, length): (u64, u64),
    access: u32,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    let end = offset.checked_add(length).ok_or(EINVAL)?;
    if end > dm.length().into() {
        return Err(EINVAL);
    }
    let mut attr = bindings::ib_dm_mr_attr {
        length,
        offset,
        access_flags: access,
    };
    let mr = pd.driver_reg_dm(dm, &mut attr, command, sleep)?;
    let mr = account(mr, bindings::IB_MR_TYPE_DM, object);
    // SAFETY: The driver has just created the region, and its object is not complete yet.
    unsafe { mr.set_dm(dm) };
    Ok(mr)
}

/// Advises the device how memory will be used. `advice` is `enum ib_uverbs_advise_mr_advice`; `ranges` are
/// `struct ib_uverbs_sge`.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and those of the driver.
pub fn advise(
    command: &AttrBundle,
    pd: &Pd,
    advice: u32,
    flags: u32,
    ranges: &mut [ib_sge],
    sleep: &MaySleep,
) -> Result {
    pd.driver_advise_user(advice, flags, ranges, command, sleep)
}
