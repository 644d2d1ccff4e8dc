// SPDX-License-Identifier: GPL-2.0

//! The DMA segments of mapped user memory, and iterators over them.
//!
//! C headers: `include/linux/scatterlist.h`, `include/rdma/iter.h`.

use core::marker::PhantomData;

use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_block_iter, ib_umem, scatterlist};

use super::view::UmemView;

/// A DMA segment: memory that is contiguous for the device.
#[derive(Clone, Copy)]
pub struct Segment {
    /// The DMA address.
    pub address: u64,
    /// The length in bytes.
    pub len: u32,
}

impl Segment {
    /// Reads an entry of a mapped scatter list.
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

/// An iterator over the segments of mapped memory.
///
/// # Invariants
///
/// `next` is null, or an entry of a mapped list that is valid for `'a`.
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
        // SAFETY: By the type invariants `next` is an entry, and `sg_next` returns the following one or null.
        unsafe {
            let segment = Segment::read(self.next);
            self.next = bindings::sg_next(self.next);
            Some(segment)
        }
    }
}

/// Memory that is mapped for DMA, as an argument of C: pinned, or a DMA buffer that stays mapped during the call.
///
/// # Invariants
///
/// The list of the memory is mapped for `'a`.
pub struct MappedUmem<'a>(&'a UmemView);

impl core::ops::Deref for MappedUmem<'_> {
    type Target = UmemView;

    #[inline]
    fn deref(&self) -> &UmemView {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MappedUmem<'_> {
    type Raw = *mut ib_umem;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is valid; a view is a transparent wrapper.
        // INVARIANT: By the header the memory is mapped during the call.
        Self(unsafe { &*raw.cast() })
    }
}

impl MappedUmem<'_> {
    /// The DMA segments.
    pub fn segments(&self) -> Segments<'_> {
        // SAFETY: By the type invariants the list does not change.
        let sgt = unsafe { &(*self.as_raw()).sgt_append.sgt };
        // INVARIANT: The list is that of the memory.
        Segments {
            next: sgt.sgl,
            left: sgt.nents,
            _memory: PhantomData,
        }
    }
}

/// The state of an iteration over a scatter list in blocks of one size: `struct ib_block_iter`.
///
/// # Invariants
///
/// From `__sg` on the list has at least `__sg_nents` entries, and is mapped for `'a`.
pub struct BlockIter<'a>(&'a mut ib_block_iter);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for BlockIter<'_> {
    type Raw = *mut ib_block_iter;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the structure is valid, and lent for writing.
        // INVARIANT: By the header the iteration was initialised, for memory that stays mapped.
        Self(unsafe { &mut *raw })
    }
}

impl BlockIter<'_> {
    /// The entry of the list that the next block begins in.
    pub fn segment(&self) -> Option<Segment> {
        let is_there = self.0.__sg_nents != 0 && !self.0.__sg.is_null();
        // SAFETY: By the type invariants `__sg` is an entry of a mapped list.
        is_there.then(|| unsafe { Segment::read(self.0.__sg) })
    }

    /// Moves to the next entry.
    pub fn next_segment(&mut self) {
        if self.segment().is_none() {
            return;
        }
        // SAFETY: By the type invariants `__sg` is an entry, and `sg_next` returns the following one or null.
        self.0.__sg = unsafe { bindings::sg_next(self.0.__sg) };
        self.0.__sg_nents = self.0.__sg_nents.saturating_sub(1);
    }

    /// The offset of the next block in the entry, in bytes.
    pub fn advance(&self) -> u32 {
        self.0.__sg_advance
    }

    /// Sets the offset of the next block in the entry, in bytes.
    pub fn set_advance(&mut self, advance: u32) {
        self.0.__sg_advance = advance;
    }

    /// The block size in bytes, a power of two.
    pub fn block_size(&self) -> u64 {
        1u64.wrapping_shl(self.0.__pg_bit)
    }

    /// Sets the DMA address of the current block.
    pub fn set_address(&mut self, address: u64) {
        self.0.__dma_addr = address;
    }
}
