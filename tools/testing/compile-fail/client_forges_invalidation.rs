// SPDX-License-Identifier: GPL-2.0
// error: mismatched types

//! A region is said to be invalidated by a peer, and no completion says so: its memory could be freed while the peer reaches it.

use rdma::client::Mr;

/// Frees a region that a peer may still reach.
pub fn forge(mr: &Mr<'_>) -> bool {
    mr.note_invalidated(mr.rkey())
}
