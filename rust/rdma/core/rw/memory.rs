// SPDX-License-Identifier: GPL-2.0

//! The memory of an RW context while it is mapped for DMA: scatter lists and arrays of `struct bio_vec`.
//!
//! C header: `include/rdma/rw.h`.

use core::marker::PhantomData;

use kernel::{error::to_result, ffi::c_int, prelude::*};
use kernel_ext::entry::FromC;
use rdma_bindings::{
    self as bindings, bio_vec, bvec_iter, dma_data_direction, ib_sge, scatterlist, sg_table,
};

use crate::core::{
    mr::{DmaList, DmaSpan},
    Device,
};

/// A scatter list that is mapped for DMA; dropping it unmaps the list.
///
/// # Invariants
///
/// The table is mapped in this direction, and its list is valid for `'a`.
pub struct Mapping<'a> {
    device: &'a Device,
    table: sg_table,
    direction: dma_data_direction,
    _list: PhantomData<DmaList<'a>>,
}

impl<'a> Mapping<'a> {
    /// Maps the first `count` entries of a list.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that has fewer; `EIO`, `ENOMEM` and others from DMA mapping.
    pub fn new(
        device: &'a Device,
        list: DmaList<'a>,
        count: u32,
        direction: dma_data_direction,
    ) -> Result<Self> {
        let mut table = list.table(count)?;
        // SAFETY: The list has `count` entries, and is valid for `'a`.
        to_result(unsafe { bindings::ib_dma_map_sgtable(device.as_raw(), &mut table, direction) })?;
        // SAFETY: The table was just mapped, for the result alone.
        Ok(unsafe { Self::of(device, table, direction) })
    }

    /// Takes over a mapped table.
    ///
    /// # Safety
    ///
    /// The table is mapped in this direction, its list is valid for `'a`, and nobody else unmaps it.
    pub(super) unsafe fn of(
        device: &'a Device,
        table: sg_table,
        direction: dma_data_direction,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            device,
            table,
            direction,
            _list: PhantomData,
        }
    }

    /// The number of DMA-mapped entries.
    pub fn count(&self) -> u32 {
        self.table.nents
    }

    /// Leaves the memory mapped, for a context that takes it over.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Mapping<'_> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the table is mapped in this direction.
        unsafe {
            let device = self.device.as_raw();
            bindings::ib_dma_unmap_sgtable(device, &mut self.table, self.direction);
        }
    }
}

/// An array of `struct bio_vec`, which C passes together with a [`BvecRange`].
pub struct Bvecs<'a> {
    pub(super) first: *const bio_vec,
    _array: PhantomData<&'a bio_vec>,
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for Bvecs<'_> {
    type Raw = *const bio_vec;

    #[inline]
    unsafe fn from_c(first: Self::Raw) -> Self {
        Self {
            first,
            _array: PhantomData,
        }
    }
}

/// A range in an array of `struct bio_vec`, which C passes together with [`Bvecs`].
///
/// # Invariants
///
/// The range lies in the array that C passes in the same call. No exported function takes two of them.
#[derive(Clone, Copy)]
pub struct BvecRange<'a>(bvec_iter, PhantomData<&'a bio_vec>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for BvecRange<'_> {
    type Raw = bvec_iter;

    #[inline]
    unsafe fn from_c(raw: bvec_iter) -> Self {
        // INVARIANT: By the header the range lies in the array.
        Self(raw, PhantomData)
    }
}

impl BvecRange<'_> {
    /// The number of bytes left.
    pub fn len(&self) -> usize {
        self.0.bi_size as usize
    }

    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next entry.
    pub(super) fn next(&mut self, bvecs: &Bvecs<'_>) -> Option<bio_vec> {
        let mut piece = pin_init::zeroed();
        // SAFETY: By the type invariants the range lies in the array of the same call.
        let there = unsafe { bindings::rdma_bvec_next(bvecs.first, &mut self.0, &mut piece) };
        there.then_some(piece)
    }
}

/// Pages that are mapped one by one; dropping the value unmaps them.
///
/// # Invariants
///
/// `pieces` are mapped in this direction, and nobody else unmaps them.
pub struct MappedPages<'a> {
    device: &'a Device,
    direction: dma_data_direction,
    pieces: KVec<ib_sge>,
}

impl<'a> MappedPages<'a> {
    /// Maps the entries of a range, at most `most`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for more entries; and those of DMA mapping.
    pub fn new(
        device: &'a Device,
        bvecs: &Bvecs<'_>,
        mut range: BvecRange<'_>,
        most: u32,
        (lkey, direction): (u32, dma_data_direction),
    ) -> Result<Self> {
        let mut this = Self {
            device,
            direction,
            pieces: KVec::with_capacity(most as usize, GFP_KERNEL)?,
        };
        while let Some(mut piece) = range.next(bvecs) {
            if this.pieces.len() == most as usize {
                return Err(EINVAL);
            }
            let mut addr = 0;
            // SAFETY: By the header the page is valid as long as the context.
            let mapped = unsafe {
                bindings::rdma_bvec_map(device.as_raw(), &mut piece, direction, &mut addr)
            };
            if !mapped {
                return Err(ENOMEM);
            }
            let length = piece.bv_len;
            // The capacity for `most` entries is reserved.
            this.pieces
                .push(ib_sge { addr, length, lkey }, GFP_KERNEL)?;
        }
        Ok(this)
    }

    /// The mapped entries.
    pub fn spans(&self) -> impl Iterator<Item = DmaSpan> + '_ {
        self.pieces.iter().map(|piece| DmaSpan {
            address: piece.addr,
            length: piece.length,
        })
    }

    /// The number of entries.
    pub fn count(&self) -> u32 {
        self.pieces.len() as u32
    }

    /// Leaves the pages mapped, for a context that takes them over.
    pub fn keep(mut self) {
        self.pieces.clear();
    }
}

impl Drop for MappedPages<'_> {
    fn drop(&mut self) {
        for piece in &self.pieces {
            // SAFETY: By the type invariants the page is mapped, and it is unmapped here alone.
            unsafe { unmap_page(self.device, piece, self.direction) };
        }
    }
}

/// Unmaps a page.
///
/// # Safety
///
/// The page is mapped in this direction, and is unmapped once.
pub(super) unsafe fn unmap_page(device: &Device, piece: &ib_sge, direction: dma_data_direction) {
    // SAFETY: By the safety requirements.
    unsafe {
        let length = piece.length as usize;
        bindings::rdma_bvec_unmap(device.as_raw(), piece.addr, length, direction);
    }
}

impl Device {
    /// The device that does the DMA; `None` for a software device.
    pub(super) fn dma_device_raw(&self) -> Option<*mut bindings::device> {
        // SAFETY: The member is constant from registration on.
        let raw = unsafe { (*self.as_raw()).dma_device };
        (!raw.is_null()).then_some(raw)
    }
}

/// Pages as a scatter list that is mapped for DMA; dropping it unmaps and frees the list.
pub struct PageList<'a> {
    mapping: Mapping<'a>,
    list: KVec<scatterlist>,
}

impl<'a> PageList<'a> {
    /// Makes a scatter list of the entries of a range, at most `most`, and maps it.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for more entries; and those of DMA mapping.
    pub fn new(
        device: &'a Device,
        bvecs: &Bvecs<'_>,
        mut range: BvecRange<'_>,
        most: u32,
        direction: dma_data_direction,
    ) -> Result<Self> {
        let mut list = KVec::<scatterlist>::with_capacity(most as usize, GFP_KERNEL)?;
        while let Some(piece) = range.next(bvecs) {
            if list.len() == most as usize {
                return Err(EINVAL);
            }
            list.push(pin_init::zeroed(), GFP_KERNEL)?;
            let Some(last) = list.last_mut() else {
                return Err(EINVAL);
            };
            // SAFETY: `last` is an element of the vector, which this function owns.
            unsafe { bindings::rdma_sg_set(last, &piece) };
        }
        let last = list.last_mut().ok_or(EINVAL)?;
        // SAFETY: `last` is the last element of the vector, which this function owns.
        unsafe { bindings::rdma_sg_end(last) };
        let count = list.len() as u32;
        // SAFETY: The last entry has the end mark. The vector owns the memory, which does not move, and is dropped after the
        // mapping.
        let pieces = unsafe { DmaList::from_c(list.as_mut_ptr()) };
        let mapping = Mapping::new(device, pieces, count, direction)?;
        Ok(Self { mapping, list })
    }

    /// The number of DMA-mapped entries.
    pub fn count(&self) -> u32 {
        self.mapping.count()
    }

    /// The mapped list.
    pub fn list(&self) -> DmaList<'_> {
        // SAFETY: The list has an end mark, and is valid as long as `self` owns it.
        unsafe { DmaList::from_c(self.mapping.table.sgl) }
    }

    /// Hands the table over to a context.
    pub(super) fn into_table(self) -> sg_table {
        let table = self.mapping.table;
        self.mapping.keep();
        core::mem::forget(self.list);
        table
    }
}

impl DmaList<'_> {
    /// Checks that the list has `count` entries.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that has fewer.
    pub(crate) fn has(self, count: c_int) -> Result {
        let Ok(before @ 0..) = u32::try_from(count).map(|count| i64::from(count) - 1) else {
            return Ok(());
        };
        let last = self.skip(before as u32).as_raw();
        (!last.is_null()).then_some(()).ok_or(EINVAL)
    }

    /// The first `count` entries as a table that is not mapped.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that has fewer.
    pub(super) fn table(self, count: u32) -> Result<sg_table> {
        self.has(c_int::try_from(count)?)?;
        Ok(sg_table {
            sgl: self.as_raw(),
            nents: 0,
            orig_nents: count,
        })
    }

    /// The list without its first `count` entries.
    pub fn skip(self, count: u32) -> Self {
        let mut at = self.as_raw();
        for _ in 0..count {
            if at.is_null() {
                break;
            }
            // SAFETY: By the type invariants `at` is an entry of a list with an end mark.
            at = unsafe { bindings::sg_next(at) };
        }
        // SAFETY: `at` is null, or the rest of the same list.
        unsafe { Self::from_c(at) }
    }
}
