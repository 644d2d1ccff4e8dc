// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_AH`: address handles.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::Ah;
use rdma_uverbs::destroy;

destroy_only! {
    Ah: UVERBS_OBJECT_AH, destroy::ah,
    UVERBS_METHOD_AH_DESTROY(UVERBS_ATTR_DESTROY_AH_HANDLE),
    needs destroy_ah
}
