// SPDX-License-Identifier: GPL-2.0

//! Iteration over the DMA blocks of a scatterlist (`struct ib_block_iter`).
//!
//! C header: `include/rdma/iter.h`.

use kernel::{
    ffi::{c_uint, c_ulong},
    prelude::*,
};
use kernel_ext::{
    bindings::{ib_block_iter, scatterlist},
    entry::Out,
    export::export,
};
use rdma::core::umem::segments::BlockIter;

/// Advances by `bytes`, over as many entries as necessary; stops at the end of the list.
fn skip(iter: &mut BlockIter<'_>, mut bytes: u64) {
    while let Some(segment) = iter.segment() {
        let left = u64::from(segment.len.saturating_sub(iter.advance()));
        if bytes < left {
            break;
        }
        bytes -= left;
        iter.set_advance(0);
        iter.next_segment();
    }
    // An offset within an entry, whose length has 32 bits; unused at the end of the list.
    iter.set_advance(iter.advance().wrapping_add(bytes as u32));
}

/// Starts an iteration over a mapped list of `nents` entries in blocks of `pgsz` bytes, a power of two. Any context.
#[export]
fn __rdma_block_iter_start(
    biter: Out<'_, ib_block_iter>,
    sglist: *mut scatterlist,
    nents: c_uint,
    pgsz: c_ulong,
) {
    biter.set(ib_block_iter {
        __sg: sglist,
        __sg_nents: nents,
        __pg_bit: pgsz.checked_ilog2().unwrap_or(0),
        ..Zeroable::zeroed()
    });
}

/// Advances to the next block; false at the end. Any context.
#[export]
fn __rdma_block_iter_next(mut biter: BlockIter<'_>) -> bool {
    let Some(segment) = biter.segment() else {
        return false;
    };
    let address = segment.address.wrapping_add(u64::from(biter.advance()));
    biter.set_address(address);
    let size = biter.block_size();
    skip(
        &mut biter,
        size.wrapping_sub(address & size.wrapping_sub(1)),
    );
    true
}
