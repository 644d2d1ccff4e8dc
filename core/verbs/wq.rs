// SPDX-License-Identifier: GPL-2.0

//! Work queues: the receive queues of an RWQ indirection table.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_wq`).

use kernel::prelude::*;
use kernel_ext::export::export;
use rdma::{
    core::{
        object::{Failed, Owned, OwnedOrErr, UdataView},
        srq::WqInit,
        Pd, Wq,
    },
    MaySleep,
};

/// Creates a work queue for a kernel client. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_create_wq(pd: &Pd, init_attr: &WqInit, sleep: &MaySleep) -> OwnedOrErr<Wq> {
    OwnedOrErr(pd.driver_create_wq(init_attr, sleep))
}

/// Destroys a work queue. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used, and errors of the driver: the queue is then not destroyed.
#[export]
fn ib_destroy_wq_user(wq: Owned<Wq>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if wq.uses().is_used() {
        return Err(EBUSY);
    }
    wq.driver_destroy(udata, sleep).map_err(Failed::keep)
}
