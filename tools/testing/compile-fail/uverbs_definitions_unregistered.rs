// SPDX-License-Identifier: GPL-2.0
// crate: rdma_uverbs
// error: mismatched types
// error: expected `&Registered`, found `&Device`

//! The definitions of a driver whose device may not be registered.

use rdma::core::Device;
use rdma_uverbs::definition::Definitions;

/// Reads them.
pub fn read(device: &Device) -> Definitions<'_> {
    Definitions::of_driver(device)
}
