// SPDX-License-Identifier: GPL-2.0

//! The memory of a message that is copied to its receiver's memory directly.

use crate::mr::{MrError, Region};
use kernel::prelude::*;
use rdma::provider::extent::Extent;

/// Most pieces of memory of one message. With more, it goes in packets.
const MOST: usize = 8;

/// Pieces of memory, one after the other.
pub(crate) struct Source<'a> {
    pieces: [Option<Extent<'a>>; MOST],
    count: usize,
}

impl<'a> Source<'a> {
    /// No memory.
    pub(crate) const fn new() -> Self {
        Self {
            pieces: [None; MOST],
            count: 0,
        }
    }

    /// Adds a piece at the end, if there is room for it.
    #[inline]
    pub(crate) fn push(&mut self, piece: Extent<'a>) -> Option<()> {
        *self.pieces.get_mut(self.count)? = Some(piece);
        self.count = self.count.wrapping_add(1);
        Some(())
    }

    /// Passes the pieces of bytes `from..from + len` to `each`: the memory, the offset in it, and the length.
    ///
    /// # Errors
    ///
    /// Those of `each`, [`MrError::OutOfRange`] beyond the end.
    #[inline]
    fn for_each(
        &self,
        from: u32,
        len: u32,
        mut each: impl FnMut(&Extent<'a>, usize, usize) -> Result<(), MrError>,
    ) -> Result<(), MrError> {
        let (mut skip, mut left) = (from as usize, len as usize);
        for piece in self.pieces.iter().flatten() {
            if left == 0 {
                break;
            }
            let Some(rest) = piece.len().checked_sub(skip) else {
                skip = skip.wrapping_sub(piece.len());
                continue;
            };
            let now = rest.min(left);
            each(piece, skip, now)?;
            skip = 0;
            left = left.wrapping_sub(now);
        }
        if left == 0 {
            Ok(())
        } else {
            Err(MrError::OutOfRange)
        }
    }

    /// Copies bytes `from..from + len` to offset `at` of a region.
    ///
    /// # Errors
    ///
    /// As for [`Region::copy_from`].
    #[inline]
    pub(crate) fn copy_to(
        &self,
        from: u32,
        len: u32,
        region: &Region,
        mut at: u32,
    ) -> Result<(), MrError> {
        self.for_each(from, len, |piece, offset, now| {
            region.copy_from(at, piece, offset, now)?;
            at = at.saturating_add(now as u32);
            Ok(())
        })
    }

    /// Copies the bytes from `from` on to `to`.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`] beyond the end.
    pub(crate) fn read(&self, from: u32, to: &mut [u8]) -> Result<(), MrError> {
        let mut rest = to;
        self.for_each(from, rest.len() as u32, |piece, offset, now| {
            let (start, left) = core::mem::take(&mut rest)
                .split_at_mut_checked(now)
                .ok_or(MrError::OutOfRange)?;
            rest = left;
            piece.read(offset, start).map_err(|_| MrError::OutOfRange)
        })
    }
}
