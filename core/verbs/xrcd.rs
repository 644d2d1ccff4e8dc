// SPDX-License-Identifier: GPL-2.0

//! XRC domains, in which target queue pairs and shared receive queues are found by number.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_xrcd`).

use kernel::prelude::*;
use kernel_ext::{error::EOPNOTSUPP, export::export};
use rdma::{
    core::{
        object::{Failed, Fresh, Owned, OwnedOrErr, UdataView},
        pd::Inode,
        Device, Xrcd,
    },
    MaySleep,
};

fn alloc(
    device: &Device,
    inode: Option<&Inode>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result<Owned<Xrcd>> {
    if !device.has_alloc_xrcd() {
        return Err(EOPNOTSUPP);
    }
    let xrcd = Fresh::new_xrcd(device, inode, sleep)?;
    xrcd.driver_alloc(udata, sleep).map_err(Failed::keep)
}

/// Allocates an XRC domain, which may be named by an inode. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `ENOMEM`, and errors of the driver.
#[export]
fn ib_alloc_xrcd_user(
    device: &Device,
    inode: Option<&Inode>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> OwnedOrErr<Xrcd> {
    OwnedOrErr(alloc(device, inode, udata, sleep))
}

/// Deallocates an XRC domain. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used, and errors of the driver: the domain is then not deallocated.
#[export]
fn ib_dealloc_xrcd_user(xrcd: Owned<Xrcd>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if xrcd.uses().is_used() {
        return Err(EBUSY);
    }
    if xrcd.has_targets() {
        pr_warn!("an XRC domain goes that has target queue pairs\n");
    }
    xrcd.driver_dealloc(udata, sleep).map_err(Failed::keep)?;
    Ok(())
}
