// SPDX-License-Identifier: GPL-2.0

//! Objects that are left when their device goes, because a client has not freed them.
//!
//! C header: `include/rdma/restrack.h`.

use kernel::{pr_err, warn_on};
use rdma::core::{
    restrack::{CopiedName, Listed, Owner, KINDS},
    Device,
};

use crate::private::DeviceExt;

/// What the object of an entry is called.
fn kind_of(owner: Option<Owner<'_>>) -> &'static str {
    match owner {
        Some(Owner::Pd(_)) => "PD",
        Some(Owner::Cq(_)) => "CQ",
        Some(Owner::Qp(_)) => "QP",
        Some(Owner::CmId(_)) => "CM_ID",
        Some(Owner::Mr(_)) => "MR",
        Some(Owner::Context(_)) => "CTX",
        Some(Owner::Counter(_)) => "COUNTER",
        Some(Owner::Srq(_)) => "SRQ",
        Some(Owner::Dmah(_)) => "DMAH",
        Some(Owner::CompCntr(_)) => "COMP_CNTR",
        None => "object",
    }
}

fn tell(device: &Device, left: &Listed) {
    let entry = left.entry();
    let (kind, name) = (kind_of(entry.owner()), CopiedName::of(left));
    pr_err!(
        "restrack: BUG: {} {} of {} is left, which {} has not freed\n",
        kind,
        entry.id(),
        device.name(),
        name
    );
}

/// Warns of each object that is left. The device has no users any more; what they have not freed is lost.
pub(crate) fn report(device: &Device) {
    let mut any = false;
    for kind in 0..KINDS as u32 {
        device.core().restrack.with(kind, |table| {
            for left in table.slots.values().filter_map(|slot| slot.listed.as_ref()) {
                tell(device, left);
                any = true;
            }
        });
    }
    warn_on!(any);
}
