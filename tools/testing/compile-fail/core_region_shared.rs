// SPDX-License-Identifier: GPL-2.0
// error: cannot borrow `*mr` as mutable, as it is behind a `&` reference

//! The core changes the signature attributes of a region that other threads may have, too.

use kernel::prelude::*;
use rdma::core::{mr::PooledMr, rw::SigAttrsView};

/// Changes them.
pub fn sign(mr: &PooledMr<'_>, attrs: &SigAttrsView) -> Result {
    mr.set_sig_attrs(attrs)
}
