// SPDX-License-Identifier: GPL-2.0

//! Attributes of `rdma` over netlink that not all headers have.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

/// `RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX`, since 7.3: the most objects of a kind.
#[cfg(has_summary_max)]
pub const SUMMARY_ENTRY_MAX: Option<u32> =
    Some(crate::bindings::RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX);
/// `RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_MAX`, since 7.3: the most objects of a kind.
#[cfg(not(has_summary_max))]
pub const SUMMARY_ENTRY_MAX: Option<u32> = None;
