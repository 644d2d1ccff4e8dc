// SPDX-License-Identifier: GPL-2.0

//! Source buffers of a direct copy (`qp/direct.rs`), or of a run of packets.

use crate::mr::{MrError, Region};
use kernel::prelude::*;
use kernel_ext::room::Room;
use rdma::provider::extent::Extent;

/// The maximum number of buffers; messages with longer lists are sent in packets.
const MAX_PIECES: usize = 8;

/// A list of buffers, in order.
pub(crate) struct Source<'a> {
    pieces: [Option<Extent<'a>>; MAX_PIECES],
    count: usize,
}

impl<'a> Source<'a> {
    /// An empty list.
    pub(crate) const fn new() -> Self {
        Self {
            pieces: [None; MAX_PIECES],
            count: 0,
        }
    }

    /// Appends a buffer, if there is room for it.
    #[inline]
    pub(crate) fn push(&mut self, piece: Extent<'a>) -> Option<()> {
        *self.pieces.get_mut(self.count)? = Some(piece);
        self.count = self.count.wrapping_add(1);
        Some(())
    }

    /// Calls `each` with the parts of bytes `from..from + len`: the buffer, the offset in it, and the length.
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
        for piece in self.pieces.iter().map_while(Option::as_ref) {
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

    /// Copies bytes `from..from + len` to `to`.
    ///
    /// # Errors
    ///
    /// [`MrError::OutOfRange`] beyond the end, or if `to` is too small.
    #[inline]
    pub(crate) fn copy_out(&self, from: u32, len: u32, to: &mut Room<'_>) -> Result<(), MrError> {
        self.for_each(from, len, |piece, offset, now| {
            piece
                .copy_out(offset, now, to)
                .map_err(|_| MrError::OutOfRange)
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
