// SPDX-License-Identifier: GPL-2.0

//! `UVERBS_OBJECT_XRCD`: XRC domains.
//!
//! C header: `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use rdma::core::Xrcd;

use crate::commands::xrcd;

destroy_only! {
    Xrcd: UVERBS_OBJECT_XRCD, xrcd::destroy,
    UVERBS_METHOD_XRCD_DESTROY(UVERBS_ATTR_DESTROY_XRCD_HANDLE),
    needs dealloc_xrcd
}
