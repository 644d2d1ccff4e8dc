// SPDX-License-Identifier: GPL-2.0

//! Identifiers of `ib_cm` and `iw_cm`, and a folder in configfs, for `rdma_cm` alone: whoever links this crate needs these modules.
//!
//! | module | contents |
//! |---|---|
//! | [`configfs`] | the folder of the module in configfs |
//! | [`ib`], [`iw`] | the identifiers, their events and calls |
//! | [`lower`] | the one of these that an identifier of `rdma_cm` has |
//! | [`reason`] | the texts of refusals |
//!
//! C headers: `include/rdma/ib_cm.h`, `include/rdma/iw_cm.h`.

pub mod configfs;
pub mod ib;
pub mod iw;
pub mod lower;
pub mod reason;

/// The prefix of log messages.
const __LOG_PREFIX: &[u8] = b"rdma_cm\0";
