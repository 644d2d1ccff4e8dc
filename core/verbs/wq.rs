// SPDX-License-Identifier: GPL-2.0

//! Work queues: the receive queues that a table of work queues spreads packets over.

use kernel::prelude::*;
use kernel_ext::export::export;
use rdma::{
    core::{
        object::{Failed, Made, Owned, UdataView},
        srq::WqInit,
        Pd, Wq,
    },
    MaySleep,
};

/// Makes a work queue of a client in the kernel. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` where the device has none, and what the driver answers.
#[export]
fn ib_create_wq(pd: &Pd, init_attr: &WqInit, sleep: &MaySleep) -> Made<Wq> {
    let wq = pd.driver_create_wq(init_attr, sleep);
    if wq.is_ok() {
        pd.uses().inc();
        init_attr.cq().uses().inc();
    }
    Made(wq)
}

/// Destroys a work queue. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used, and what the driver answers: then the queue stays.
#[export]
fn ib_destroy_wq_user(wq: Owned<Wq>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if wq.uses().is_used() {
        return Err(EBUSY);
    }
    let used = wq.parent_counts();
    wq.driver_destroy(udata, sleep).map_err(Failed::keep)?;
    used.release();
    Ok(())
}
