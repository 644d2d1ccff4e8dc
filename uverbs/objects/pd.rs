// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_PD`: protection domains.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::Pd;
use rdma_uverbs::destroy;

destroy_only! {
    Pd: UVERBS_OBJECT_PD, destroy::pd,
    UVERBS_METHOD_PD_DESTROY(UVERBS_ATTR_DESTROY_PD_HANDLE),
    needs dealloc_pd
}
