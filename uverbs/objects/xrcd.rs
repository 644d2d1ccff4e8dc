// SPDX-License-Identifier: GPL-2.0

//! XRC domains.

use kernel::prelude::*;
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Xrcd},
    MaySleep,
};
use rdma_uverbs::{destroy, uevent::XrcdObject};

use crate::commands;

fn destroy(
    object: &XrcdObject,
    _why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    destroy::xrcd(object, |xrcd| commands::xrcd::dealloc(xrcd, command, sleep))
}

destroy_only! {
    Xrcd: UVERBS_OBJECT_XRCD, destroy,
    UVERBS_METHOD_XRCD_DESTROY(UVERBS_ATTR_DESTROY_XRCD_HANDLE),
    needs dealloc_xrcd
}
