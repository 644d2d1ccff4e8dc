// SPDX-License-Identifier: GPL-2.0

//! The scatter list of mapped memory: what the device sees of it, piece by piece.
//!
//! C headers: `include/linux/scatterlist.h`, `include/rdma/iter.h`.

use core::marker::PhantomData;

use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_block_iter, ib_umem, scatterlist};

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

/// Memory that is mapped for DMA, as C passes it: pinned, or a DMA buffer that the caller keeps mapped during the call.
///
/// # Invariants
///
/// The list of the memory is mapped, and stays for `'a`.
pub struct MappedUmem<'a>(&'a UmemView);

impl core::ops::Deref for MappedUmem<'_> {
    type Target = UmemView;

    #[inline]
    fn deref(&self) -> &UmemView {
        self.0
    }
}

// SAFETY: As for a reference.
unsafe impl FromC for MappedUmem<'_> {
    type Raw = *mut ib_umem;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is there; a view is a transparent wrapper.
        // INVARIANT: The header says that it is mapped.
        Self(unsafe { &*raw.cast() })
    }
}

impl MappedUmem<'_> {
    /// The pieces that the device sees.
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

/// Where somebody is who goes over a scatter list in blocks of one size.
///
/// # Invariants
///
/// It was set up for a list of at least `__sg_nents` entries from `__sg` on, which is mapped and stays for `'a`.
pub struct BlockIter<'a>(&'a mut ib_block_iter);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for BlockIter<'_> {
    type Raw = *mut ib_block_iter;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements it is there, and lent for changing.
        // INVARIANT: The header says that it was set up, for memory that stays mapped meanwhile.
        Self(unsafe { &mut *raw })
    }
}

impl BlockIter<'_> {
    /// The entry of the list that the next block begins in.
    pub fn segment(&self) -> Option<Segment> {
        let is_there = self.0.__sg_nents != 0 && !self.0.__sg.is_null();
        // SAFETY: By the type invariants.
        is_there.then(|| unsafe { Segment::read(self.0.__sg) })
    }

    /// Goes on to the next entry.
    pub fn next_segment(&mut self) {
        if self.segment().is_none() {
            return;
        }
        // SAFETY: By the type invariants there is an entry, which leads to the one after it, or to null.
        self.0.__sg = unsafe { bindings::sg_next(self.0.__sg) };
        self.0.__sg_nents = self.0.__sg_nents.saturating_sub(1);
    }

    /// How far into the entry the next block begins, in bytes.
    pub fn advance(&self) -> u32 {
        self.0.__sg_advance
    }

    /// Says how far into the entry the next block begins.
    pub fn set_advance(&mut self, advance: u32) {
        self.0.__sg_advance = advance;
    }

    /// The size of a block, a power of two.
    pub fn block_size(&self) -> u64 {
        1u64.wrapping_shl(self.0.__pg_bit)
    }

    /// Says where the present block begins.
    pub fn set_address(&mut self, address: u64) {
        self.0.__dma_addr = address;
    }
}
