// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_MW`: memory windows.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::Mw;
use rdma_uverbs::destroy;

destroy_only! {
    Mw: UVERBS_OBJECT_MW, destroy::mw,
    UVERBS_METHOD_MW_DESTROY(UVERBS_ATTR_DESTROY_MW_HANDLE),
    needs dealloc_mw
}
