// SPDX-License-Identifier: GPL-2.0

//! The object classes and their ioctl methods, one file a class; each has its `DEFINITIONS` for the API of a device.
//!
//! The functions that create and destroy objects, for ioctl and write commands, are in the crate `rdma_uverbs`.
//!
//! C headers: `include/rdma/uverbs_named_ioctl.h`, `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma_uverbs::table::Definition;

#[macro_use]
mod destroy_only;

mod ah;
mod async_fd;
mod attrs;
mod comp_channel;
#[cfg(has_comp_cntr)]
mod comp_cntr;
mod counters;
mod cq;
mod device;
mod dm;
mod dmabuf;
mod dmah;
mod flow;
mod flow_action;
mod mr;
mod mw;
mod pd;
mod qp;
mod rwq_ind_table;
mod srq;
mod wq;
mod xrcd;

/// All objects.
pub(crate) static DEFINITIONS: [Definition; 20 + cfg!(has_comp_cntr) as usize] = [
    Definition::chain(&async_fd::DEFINITIONS),
    Definition::chain(&counters::DEFINITIONS),
    Definition::chain(&cq::DEFINITIONS),
    Definition::chain(&device::DEFINITIONS),
    Definition::chain(&dm::DEFINITIONS),
    Definition::chain(&dmabuf::DEFINITIONS),
    Definition::chain(&dmah::DEFINITIONS),
    Definition::chain(&flow_action::DEFINITIONS),
    Definition::chain(&pd::DEFINITIONS),
    Definition::chain(&comp_channel::DEFINITIONS),
    Definition::chain(&ah::DEFINITIONS),
    Definition::chain(&mw::DEFINITIONS),
    Definition::chain(&flow::DEFINITIONS),
    Definition::chain(&rwq_ind_table::DEFINITIONS),
    Definition::chain(&xrcd::DEFINITIONS),
    Definition::chain(&mr::DEFINITIONS),
    Definition::chain(&qp::DEFINITIONS),
    Definition::chain(&srq::DEFINITIONS),
    Definition::chain(&wq::DEFINITIONS),
    #[cfg(has_comp_cntr)]
    Definition::chain(&comp_cntr::DEFINITIONS),
    Definition::END,
];
