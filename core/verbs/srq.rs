// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_srq`).

use kernel::prelude::*;
use kernel_ext::{bindings as c, export::export};
use rdma::{
    core::{
        object::{Fresh, Owned, OwnedOrErr, UdataView},
        srq::{SrqInit, UsrqObject},
        Pd, Srq,
    },
    MaySleep,
};

use crate::restrack::track;

fn create(
    pd: &Pd,
    init: &SrqInit,
    uobject: Option<&UsrqObject>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> Result<Owned<Srq>> {
    let mut srq = Fresh::new_srq(pd, init, uobject, sleep)?;
    srq.used().for_each(|uses| uses.inc());
    track::set_owner_of(&mut srq, pd);
    let srq = srq.driver_create(init, udata, sleep).map_err(|failed| {
        // SAFETY: The creation of the queue, which was counted above, has failed.
        failed.object.used().for_each(|uses| unsafe { uses.dec() });
        track::discard(failed)
    })?;
    track::add(&srq);
    Ok(srq)
}

/// Creates a shared receive queue; the attributes are updated to its actual size. Process context.
///
/// # Errors
///
/// `ENOMEM`, `EOPNOTSUPP`, and errors of the driver.
#[export]
fn ib_create_srq_user(
    pd: &Pd,
    srq_init_attr: &SrqInit,
    uobject: Option<&UsrqObject>,
    udata: Option<&UdataView>,
    sleep: &MaySleep,
) -> OwnedOrErr<Srq> {
    OwnedOrErr(create(pd, srq_init_attr, uobject, udata, sleep))
}

/// Modifies a shared receive queue; `srq_attr_mask` is `enum ib_srq_attr_mask`. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and errors of the driver.
#[export]
fn ib_modify_srq(
    srq: &Srq,
    srq_attr: &mut c::ib_srq_attr,
    srq_attr_mask: c::ib_srq_attr_mask,
    sleep: &MaySleep,
) -> Result {
    srq.driver_modify(srq_attr, srq_attr_mask, sleep)
}

/// Queries the attributes of a shared receive queue. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP`, and errors of the driver.
#[export]
fn ib_query_srq(srq: &Srq, srq_attr: &mut c::ib_srq_attr, sleep: &MaySleep) -> Result {
    srq.driver_query(srq_attr, sleep)
}

/// Destroys a shared receive queue. Process context.
///
/// # Errors
///
/// `EBUSY` while it is used, and errors of the driver: the queue is then not destroyed.
#[export]
fn ib_destroy_srq_user(srq: Owned<Srq>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if srq.uses().is_used() {
        return Err(EBUSY);
    }
    let srq = track::destroy(srq, sleep, |srq| srq.driver_destroy(udata, sleep))?;
    // SAFETY: The queue, which `create` has counted, is destroyed.
    srq.used().for_each(|uses| unsafe { uses.dec() });
    Ok(())
}
