// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_RWQ_IND_TBL`: receive work queue indirection tables.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::RwqIndTable;
use rdma_uverbs::destroy;

destroy_only! {
    RwqIndTable: UVERBS_OBJECT_RWQ_IND_TBL, destroy::rwq_ind_table,
    UVERBS_METHOD_RWQ_IND_TBL_DESTROY(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE),
    needs destroy_rwq_ind_table
}
