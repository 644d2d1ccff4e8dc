// SPDX-License-Identifier: GPL-2.0

//! Memory regions of user space.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::error::EOPNOTSUPP;
use rdma::{
    driver::user::Rereg,
    view::{
        mr::NewMr,
        object::{Owned, UdataView},
        AttrBundle, Device, Dm, Dmah, Mr, Pd, Uobject,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_sge};

use crate::{lookup::WriteLocked, verbs::track};

/// The bits of `enum ib_access_flags` that there are, with those that a device may ignore.
pub const ACCESS_SUPPORTED: u32 = bindings::IB_ACCESS_SUPPORTED;

/// Looks whether a device can give such access: `enum ib_access_flags`.
///
/// # Errors
///
/// `EINVAL` for bits that there are not, and for writing or atomics of peers where local writing is not allowed; `EOPNOTSUPP`
/// for what the device cannot.
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

/// Accounts for a region that a driver has just made.
fn account(mr: NewMr<'_>, kind: u32, object: &Uobject) -> Owned<Mr> {
    let mr = mr.into_object(kind, object);
    mr.pd().uses().inc();
    track::begin(&mr, bindings::RDMA_RESTRACK_MR);
    track::add(&mr);
    mr
}

/// Where a region is: where its memory begins, how many bytes it has, and where peers and requests see it.
#[derive(Clone, Copy)]
pub struct Range {
    /// The address in the present process, or the offset into a buffer.
    pub start: u64,
    /// In bytes.
    pub length: u64,
    /// The address for peers and requests.
    pub iova: u64,
}

impl Range {
    /// Whether both addresses are at the same place in a page, as they must.
    pub fn is_aligned(&self) -> bool {
        const IN_PAGE: u64 = kernel::page::PAGE_SIZE as u64 - 1;
        self.start & IN_PAGE == self.iova & IN_PAGE
    }
}

/// Registers memory of the present process for an object that is being made.
///
/// # Errors
///
/// Those of the driver.
pub fn reg_user(
    command: &AttrBundle,
    object: &Uobject,
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
        // SAFETY: The driver has just made the region, and its object is not complete yet.
        unsafe { mr.set_dmah(dmah) };
    }
    Ok(mr)
}

/// Registers a region anew (`rereg_user_mr`). `named` is another protection domain that it is moved to, of which `rereg` says
/// so too. Returns the region that takes the place of the old one, if the driver has made one.
///
/// # Errors
///
/// Those of the driver.
pub fn rereg<'a>(
    old: &WriteLocked<'_, Mr>,
    rereg: &Rereg<'a>,
    named: Option<&Pd>,
    udata: &UdataView,
    sleep: &MaySleep,
) -> Result<Option<NewMr<'a>>> {
    // A driver may set the new one itself.
    let former = old.pd();
    // SAFETY: `old` is locked for writing.
    let made = unsafe { old.driver_rereg_user(rereg, udata, sleep)? };
    if made.is_some() {
        return Ok(made);
    }
    if let Some(pd) = named {
        // SAFETY: `old` is locked for writing, and its domain counts it.
        unsafe { old.set_pd(former, pd) };
        track::sync(&**old, sleep);
    }
    if rereg.flags & bindings::IB_MR_REREG_TRANS != 0 {
        old.set_range(rereg.iova, rereg.length);
    }
    Ok(None)
}

/// Registers a part of the buffer of another device, which a file descriptor is of, for an object that is being made.
///
/// # Errors
///
/// `EOPNOTSUPP`, and those of the driver.
pub fn reg_dmabuf(
    command: &AttrBundle,
    object: &Uobject,
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
        // SAFETY: The driver has just made the region, and its object is not complete yet.
        unsafe { mr.set_dmah(dmah) };
    }
    Ok(mr)
}

/// Registers `length` bytes from `offset` on of memory of the device for an object that is being made.
///
/// # Errors
///
/// `EINVAL` for what is not in the memory; `EOPNOTSUPP`, and those of the driver.
pub fn reg_dm(
    command: &AttrBundle,
    object: &Uobject,
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
    // SAFETY: The driver has just made the region, and its object is not complete yet.
    unsafe { mr.set_dm(dm) };
    Ok(mr)
}

/// Tells the device how memory will be used. `advice` is `enum ib_uverbs_advise_mr_advice`; `ranges` are
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
