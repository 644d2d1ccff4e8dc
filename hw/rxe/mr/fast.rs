// SPDX-License-Identifier: GPL-2.0

//! Fast registration memory regions, which are registered and invalidated by work requests, in softirq context.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Mr::fast` | the page list and the registration; held during an access | any, interrupts off | nothing |

use kernel::prelude::*;
use kernel_ext::room::Room;
use kernel_ext::shared_bytes::SharedBytes;
use kernel_ext::zeroed::zeroed;
use rdma::provider::extent::Extent;
use rdma::provider::mr::VirtAtomic;
use rdma::{Access, VirtDma};

use super::error::{within, MrError};

/// State of a fast registration region.
///
/// Its lock is taken in any context; nothing is locked inside. Copies run under it, so that invalidation waits for
/// them.
pub(super) struct Fast {
    virt: VirtDma,
    /// Addresses of pages of `1 << shift` bytes, of which the first `mapped` are valid.
    pages: KVVec<u64>,
    mapped: usize,
    shift: u32,
    /// Offset of the region in its first page.
    first: u64,
    length: u64,
    /// Address of the current registration.
    iova: u64,
    access: Access,
    key: u32,
    valid: bool,
    /// Counts registrations: a [`Region`](super::Region) of an earlier one is invalid.
    epoch: u32,
}

impl Fast {
    /// A region for up to `max_pages` pages, not registered.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn new(virt: VirtDma, max_pages: u32) -> Result<Self> {
        Ok(Self {
            virt,
            pages: zeroed(max_pages as usize, GFP_KERNEL)?,
            mapped: 0,
            shift: 0,
            first: 0,
            length: 0,
            iova: 0,
            access: Access::empty(),
            key: 0,
            valid: false,
            epoch: 0,
        })
    }

    /// Sets the initial key, by which the region is invalidated before its first registration.
    pub(super) fn set_key(&mut self, key: u32) {
        self.key = key;
    }

    /// Removes the pages; the next ones have `1 << shift` bytes.
    pub(super) fn map_begin(&mut self, shift: u32) {
        self.mapped = 0;
        self.shift = shift;
    }

    /// Adds a page.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`] where the region is full.
    pub(super) fn map_page(&mut self, address: u64) -> Result<(), MrError> {
        let place = self.pages.get_mut(self.mapped).ok_or(MrError::OutOfRange)?;
        *place = address;
        self.mapped += 1;
        Ok(())
    }

    /// Sets the range of the region in its pages: `length` bytes at `iova`.
    pub(super) fn map_end(&mut self, iova: u64, length: u64) {
        let page_size = 1_u64.checked_shl(self.shift).unwrap_or(1);
        self.first = iova & (page_size - 1);
        self.length = length;
    }

    /// Registers the pages with `key`, with the first byte at address `iova`.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] where they are registered already.
    pub(super) fn register(&mut self, key: u32, access: Access, iova: u64) -> Result<(), MrError> {
        if self.valid {
            return Err(MrError::Invalid);
        }
        self.key = key;
        self.access = access;
        self.iova = iova;
        self.epoch = self.epoch.wrapping_add(1);
        self.valid = true;
        Ok(())
    }

    /// Invalidates the registration, if it has this key.
    ///
    /// # Errors
    ///
    /// [`MrError::Invalid`] if not.
    pub(super) fn invalidate(&mut self, key: u32) -> Result<(), MrError> {
        if self.key != key {
            return Err(MrError::Invalid);
        }
        self.valid = false;
        Ok(())
    }

    /// Checks a range; returns its offset and the epoch of the registration.
    pub(super) fn check(
        &self,
        key: u32,
        access: Access,
        va: u64,
        len: u64,
    ) -> Result<(u64, u32), MrError> {
        if self.key != key || !self.valid {
            return Err(MrError::Invalid);
        }
        if !self.access.contains(access) {
            return Err(MrError::NoAccess);
        }
        Ok((within(self.iova, self.length, va, len)?, self.epoch))
    }

    /// Whether registration `epoch` is still valid.
    pub(super) fn is_valid(&self, epoch: u32) -> bool {
        self.valid && self.epoch == epoch
    }

    /// Copies `from` to `offset` of the region.
    pub(super) fn write(&self, offset: u64, from: SharedBytes<'_>) -> Result<(), MrError> {
        self.pieces(offset, from.len(), |address, part| {
            self.virt.write(address, from.get(part).ok_or(EINVAL)?)
        })
    }

    /// Copies `len` bytes at `from` of other memory to `offset` of the region.
    pub(super) fn write_from(
        &self,
        offset: u64,
        other: &Extent<'_>,
        from: usize,
        len: usize,
    ) -> Result<(), MrError> {
        self.pieces(offset, len, |address, part| {
            let from = from.checked_add(part.start).ok_or(EINVAL)?;
            self.virt.write_from(address, other, from, part.len())
        })
    }

    /// Copies `len` bytes from `offset` of the region.
    pub(super) fn read(&self, offset: u64, len: usize, to: &mut Room<'_>) -> Result<(), MrError> {
        self.pieces(offset, len, |address, part| {
            self.virt.read(address, part.len(), to)
        })
    }

    /// The eight bytes at `offset`, for atomic operations.
    pub(super) fn atomic(&self, offset: u64) -> Result<VirtAtomic<'_>, MrError> {
        let mut place = None;
        self.pieces(offset, 8, |address, part| {
            // An aligned number is within one piece.
            place = (part.len() == 8).then_some(address);
            Ok(())
        })?;
        let address = place.ok_or(MrError::Misaligned)?;
        self.virt.atomic(address).map_err(|_| MrError::Misaligned)
    }

    /// Calls `each` for the contiguous pieces of `len` bytes at `offset` of the region, with the kernel address and the
    /// range of the piece in the `len` bytes.
    fn pieces(
        &self,
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, core::ops::Range<usize>) -> Result,
    ) -> Result<(), MrError> {
        let page_size = 1_u64.checked_shl(self.shift).ok_or(MrError::Invalid)?;
        let mut at = self.first.checked_add(offset).ok_or(MrError::OutOfRange)?;
        let mut done = 0_usize;
        while done < len {
            let inside = at & (page_size - 1);
            let index = usize::try_from(at >> self.shift).map_err(|_| MrError::OutOfRange)?;
            let page = self
                .pages
                .get(..self.mapped)
                .and_then(|pages| pages.get(index));
            let page = *page.ok_or(MrError::OutOfRange)?;
            let piece = len
                .wrapping_sub(done)
                .min(page_size.wrapping_sub(inside) as usize);
            let next = done.wrapping_add(piece);
            each(page.wrapping_add(inside), done..next).map_err(|_| MrError::Invalid)?;
            done = next;
            at = at.wrapping_add(piece as u64);
        }
        Ok(())
    }
}
