// SPDX-License-Identifier: GPL-2.0
// crate: rdma_user_cm
// error: cannot return value referencing local variable `entered`

//! The calls of an identifier outlive the use of it, for which its destruction waits.

use rdma::MaySleep;
use rdma_user_cm::{Calls, Handler, Id};

/// The calls of an identifier.
pub fn calls<'a, H: Handler>(id: &'a Id<H>, sleep: &MaySleep) -> Option<Calls<'a>> {
    let entered = id.enter()?;
    Some(entered.lock(sleep))
}
