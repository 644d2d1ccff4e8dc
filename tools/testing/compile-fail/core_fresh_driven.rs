// SPDX-License-Identifier: GPL-2.0
// error: no method named `driver_query` found for reference `&Fresh<rdma::core::Ah>` in the current scope

//! The core asks a driver about an address handle that the driver has not created.

use kernel::prelude::*;
use rdma::core::{object::Fresh, Ah};

/// Asks.
pub fn query(ah: &Fresh<Ah>) -> Result {
    ah.driver_query(&mut pin_init::zeroed())
}
