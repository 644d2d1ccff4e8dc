// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! A kernel client's protection domain has a local key for all memory: the device's own key, or that of an internal DMA
//! memory region.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_pd`).

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, export::export};
use rdma::{
    core::{
        object::{Fresh, Owned, OwnedOrErr, UdataView},
        qp::Caller,
        Device, Pd,
    },
    MaySleep,
};

use crate::restrack::track;

fn alloc(device: &Device, flags: u32, caller: Caller, sleep: &MaySleep) -> Result<Owned<Pd>> {
    let mut pd = Fresh::new_pd(device, flags, sleep)?;
    track::set_owner(&mut pd, caller);
    let mut pd = pd.driver_alloc(None, sleep).map_err(track::discard)?;
    track::add(&pd);
    if let Err(error) = add_keys(device, &mut pd, flags, caller, sleep) {
        let _ = dealloc(pd, None, sleep);
        return Err(error);
    }
    Ok(pd)
}

/// Sets the keys for all memory.
fn add_keys(
    device: &Device,
    pd: &mut Owned<Pd>,
    flags: u32,
    caller: Caller,
    sleep: &MaySleep,
) -> Result {
    let has_lkey = device.attrs().kernel_cap_flags & u64::from(c::IBK_LOCAL_DMA_LKEY) != 0;
    let wants_rkey = flags & c::IB_PD_UNSAFE_GLOBAL_RKEY != 0;
    let mut access = 0;
    if has_lkey {
        pd.set_local_dma_lkey(device.local_dma_lkey());
    } else {
        access |= c::IB_ACCESS_LOCAL_WRITE;
    }
    if wants_rkey {
        pr_warn!("{}: enabling unsafe global rkey\n", caller);
        access |= c::IB_ACCESS_REMOTE_READ | c::IB_ACCESS_REMOTE_WRITE;
    }
    if access == 0 {
        return Ok(());
    }
    let mr = pd.driver_get_dma_mr(access as c_int, sleep)?;
    let mr = mr.into_internal(c::IB_MR_TYPE_DMA);
    if !has_lkey {
        pd.set_local_dma_lkey(mr.lkey());
    }
    if wants_rkey {
        pd.set_unsafe_global_rkey(mr.rkey());
    }
    pd.set_internal_mr(mr);
    Ok(())
}

fn dealloc(pd: Owned<Pd>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    track::destroy(pd, sleep, |mut pd| {
        if let Some(mr) = pd.take_internal_mr() {
            if let Err(failed) = mr.driver_dereg(sleep) {
                pr_warn!(
                    "the region of a protection domain stays: {:?}\n",
                    failed.keep()
                );
            }
        }
        pd.driver_dealloc(udata, sleep)
    })?;
    Ok(())
}

/// Allocates a protection domain for a kernel client; `flags` is `enum ib_pd_flags`. Process context.
///
/// # Errors
///
/// `ENOMEM`, and errors of the driver.
#[export]
fn __ib_alloc_pd(device: &Device, flags: u32, caller: Caller, sleep: &MaySleep) -> OwnedOrErr<Pd> {
    OwnedOrErr(alloc(device, flags, caller, sleep))
}

/// Deallocates an unused protection domain. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used, and errors of the driver: the domain is then not deallocated.
#[export]
fn ib_dealloc_pd_user(pd: Owned<Pd>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if pd.uses().is_used() {
        return Err(EBUSY);
    }
    dealloc(pd, udata, sleep)
}
