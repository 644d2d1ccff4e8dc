// SPDX-License-Identifier: GPL-2.0

//! How programs find the device: the client of ib_core that netlink asks for it.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings::RDMA_USER_CM_ABI_VERSION;
use rdma::client::global::{GlobalClient, GlobalTable};

/// The client.
pub(crate) struct Client;

/// Its registration.
pub(crate) static TABLE: GlobalTable<Client> = GlobalTable::new();

impl GlobalClient for Client {
    const NAME: &'static CStr = c"rdma_cm";
    const ABI: u64 = RDMA_USER_CM_ABI_VERSION as u64;

    fn table() -> &'static GlobalTable<Self> {
        &TABLE
    }
}
