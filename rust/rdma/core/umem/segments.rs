// SPDX-License-Identifier: GPL-2.0

//! The scatter list of mapped memory: what the device sees of it, piece by piece.
//!
//! C headers: `include/linux/scatterlist.h`, `include/rdma/iter.h`.

use core::marker::PhantomData;

use kernel_ext::door::view_of;
use rdma_bindings::{self as bindings, ib_block_iter, scatterlist};

use super::UmemView;

/// A piece of memory that is contiguous for the device.
#[derive(Clone, Copy)]
pub struct Segment {
    /// Its address for the device.
    pub address: u64,
    /// Its length in bytes.
    pub len: u32,
}

impl Segment {
    /// Reads an entry of a mapped list.
    ///
    /// # Safety
    ///
    /// `sg` is an entry of a list that is mapped for DMA.
    unsafe fn read(sg: *mut scatterlist) -> Self {
        // SAFETY: By the safety requirements.
        let (address, len) = unsafe { (bindings::sg_dma_address(sg), bindings::sg_dma_len(sg)) };
        Self { address, len }
    }
}

/// The pieces of mapped memory, in order.
///
/// # Invariants
///
/// `next` is null, or an entry of a mapped list that is there for `'a`.
pub struct Segments<'a> {
    next: *mut scatterlist,
    left: u32,
    _memory: PhantomData<&'a UmemView>,
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    fn next(&mut self) -> Option<Segment> {
        if self.next.is_null() {
            return None;
        }
        self.left = self.left.checked_sub(1)?;
        // SAFETY: By the type invariants; an entry leads to the one after it, or to null.
        unsafe {
            let segment = Segment::read(self.next);
            self.next = bindings::sg_next(self.next);
            Some(segment)
        }
    }
}

impl UmemView {
    /// The pieces that the device sees. The memory is mapped: pinned, or a DMA buffer that is mapped while the caller
    /// keeps it so.
    pub fn segments(&self) -> Segments<'_> {
        // SAFETY: The structure is there.
        let sgt = unsafe { &(*self.as_raw()).sgt_append.sgt };
        // INVARIANT: The list is that of the memory.
        Segments {
            next: sgt.sgl,
            left: sgt.nents,
            _memory: PhantomData,
        }
    }
}

view_of! {
    /// Where somebody is who goes over a scatter list in blocks of one size.
    ///
    /// # Invariants
    ///
    /// It is lent to one thread at a time, and set up for a list that stays as long.
    pub struct BlockIter(ib_block_iter);
}

impl BlockIter {
    /// The state, which the caller of the function that got the view has for itself.
    fn state(&self) -> *mut ib_block_iter {
        self.as_raw()
    }

    /// The entry of the list that the next block begins in.
    pub fn segment(&self) -> Option<Segment> {
        // SAFETY: Who made the iterator keeps the list, which is mapped, as long as it goes over it.
        unsafe {
            let state = &*self.state();
            (state.__sg_nents != 0 && !state.__sg.is_null()).then(|| Segment::read(state.__sg))
        }
    }

    /// Goes on to the next entry.
    pub fn next_segment(&self) {
        // SAFETY: As above.
        unsafe {
            let state = &mut *self.state();
            state.__sg_nents = state.__sg_nents.saturating_sub(1);
            state.__sg = if state.__sg.is_null() {
                state.__sg
            } else {
                bindings::sg_next(state.__sg)
            };
        }
    }

    /// How far into the entry the next block begins, in bytes.
    pub fn advance(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (*self.state()).__sg_advance }
    }

    /// Says how far into the entry the next block begins.
    pub fn set_advance(&self, advance: u32) {
        // SAFETY: By the type invariants.
        unsafe { (*self.state()).__sg_advance = advance };
    }

    /// The size of a block, a power of two.
    pub fn block_size(&self) -> u64 {
        // SAFETY: By the type invariants.
        1u64.wrapping_shl(unsafe { (*self.state()).__pg_bit })
    }

    /// Says where the present block begins.
    pub fn set_address(&self, address: u64) {
        // SAFETY: By the type invariants.
        unsafe { (*self.state()).__dma_addr = address };
    }
}
