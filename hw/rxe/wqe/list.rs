// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather lists in kernel memory, in the format of `struct rxe_sge`.

use crate::limits;
use core::mem::offset_of;
use kernel_ext::bindings;
use rdma::Sge;

/// Integers at fixed offsets of a request that was copied from a ring.
///
/// An offset beyond the end reads as 0; all offsets here are constants within the structures.
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl Raw<'_> {
    pub(super) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        at.checked_add(N)
            .and_then(|end| self.0.get(at..end))
            .and_then(|bytes| bytes.try_into().ok())
            .unwrap_or([0; N])
    }

    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.array(at))
    }

    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.array(at))
    }
}

/// Element `nth` of a list in kernel memory.
#[inline]
pub(crate) fn sge(list: &[u8], nth: u32) -> Sge {
    let at = nth as usize * limits::SGE;
    let raw = Raw(list.get(at..).unwrap_or(&[]));
    Sge {
        addr: raw.u64(offset_of!(bindings::rxe_sge, addr)),
        length: raw.u32(offset_of!(bindings::rxe_sge, length)),
        lkey: raw.u32(offset_of!(bindings::rxe_sge, lkey)),
    }
}

/// Writes element `nth` of a list, if there is room.
#[inline]
pub(crate) fn put_sge(list: &mut [u8], nth: u32, sge: &Sge) {
    let at = nth as usize * limits::SGE;
    let element = list.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    let Some(element): Option<&mut [u8; limits::SGE]> = element else {
        return;
    };
    // In the order of `struct rxe_sge`.
    if let Some((addr, rest)) = element.split_first_chunk_mut() {
        *addr = sge.addr.to_ne_bytes();
        if let Some((length, rest)) = rest.split_first_chunk_mut() {
            *length = sge.length.to_ne_bytes();
            if let Some(lkey) = rest.first_chunk_mut() {
                *lkey = sge.lkey.to_ne_bytes();
            }
        }
    }
}

const _: () = {
    assert!(offset_of!(bindings::rxe_sge, addr) == 0);
    assert!(offset_of!(bindings::rxe_sge, length) == 8);
    assert!(offset_of!(bindings::rxe_sge, lkey) == 12);
};

/// Iterates over the memory of bytes `offset..offset + len` of a list of `count` elements, in pieces within one element
/// each.
///
/// It ends early if the list is shorter.
#[inline]
pub(crate) fn parts(
    list: &[u8],
    count: u32,
    offset: u32,
    len: u32,
) -> impl Iterator<Item = Sge> + '_ {
    let mut skip = offset;
    let mut left = len;
    (0..count).filter_map(move |nth| {
        if left == 0 {
            return None;
        }
        let whole = sge(list, nth);
        let Some(rest) = whole.length.checked_sub(skip) else {
            skip -= whole.length;
            return None;
        };
        let length = rest.min(left);
        let addr = whole.addr.saturating_add(skip.into());
        skip = 0;
        left -= length;
        (length != 0).then_some(Sge {
            addr,
            length,
            lkey: whole.lkey,
        })
    })
}

/// The sum of the lengths of `count` elements.
pub(crate) fn list_length(list: &[u8], count: u32) -> u64 {
    (0..count).fold(0, |sum: u64, nth| {
        sum.saturating_add(sge(list, nth).length.into())
    })
}
