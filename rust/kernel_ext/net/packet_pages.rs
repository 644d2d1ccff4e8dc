// SPDX-License-Identifier: GPL-2.0

//! Pages for the data of packets, which are used again when no packet refers to them any more. So they are not allocated, and
//! cleared by the kernel, for each packet.
//!
//! A packet has a part of a block of pages, and refers to the block; the next packet has the next part. When a block is used up,
//! the next one is one that no packet refers to, or a new one. What a packet has in its part it has written itself, so that nobody
//! reads what was there before.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `PacketPages::stocks` | the blocks of a CPU | process, softirq; softirqs off | the page allocator's |

use super::skb::SkBuff;
use crate::{bindings, gfp::Gfp, new_spinlock_bh, sync::SpinLockBh};
use core::{marker::PhantomData, ptr};
use kernel::{
    cpu::{nr_cpu_ids, CpuId},
    page::PAGE_SIZE,
    prelude::*,
};

/// The order of a block's pages: the largest one for which the page allocator has per-CPU lists.
const ORDER: u32 = bindings::PAGE_ALLOC_COSTLY_ORDER;

/// The length of a block, in bytes.
const BLOCK: usize = PAGE_SIZE << ORDER;

/// The maximum number of blocks that are kept for a CPU.
const KEPT: usize = 16;

/// Parts begin at multiples of this, so that no two packets share a cache line.
const ALIGN: usize = 64;

/// Pages for the data of packets, at most half a megabyte for each CPU.
pub struct PacketPages {
    stocks: KVec<Pin<KBox<SpinLockBh<Stock>>>>,
}

/// A part of a block, for a packet.
///
/// # Invariants
///
/// `block` is a block to which a stock refers during `'a`. To its `len` bytes at `offset` nothing else refers.
struct Part<'a> {
    block: *mut u8,
    offset: usize,
    len: usize,
    stock: PhantomData<&'a Stock>,
}

impl Part<'_> {
    /// Adds the part to a packet as a fragment of which nothing is used yet; returns its start and its length. `None` if the packet has
    /// as many fragments as it may have.
    fn add_to(self, skb: &mut SkBuff) -> Option<(*mut u8, usize)> {
        let (block, size) = (self.block.cast_const().cast(), self.len as u32);
        // SAFETY: `skb` is borrowed mutably. By the type invariants `block` are pages; the packet gets a reference of its own.
        let added = unsafe { bindings::skb_add_frag(skb.as_raw(), block, self.offset, size) };
        added.then_some((self.block.wrapping_add(self.offset), self.len))
    }
}

/// The blocks of a CPU.
///
/// # Invariants
///
/// `self` owns a reference to each of `blocks` that is not null, [`BLOCK`] bytes of pages. To the bytes of the block at `current` from
/// `used` on no packet refers.
struct Stock {
    blocks: [*mut u8; KEPT],
    current: usize,
    used: usize,
}

// SAFETY: Pages may be used and freed on any thread.
unsafe impl Send for Stock {}

impl Stock {
    const fn new() -> Self {
        // INVARIANT: There are no blocks, and nothing is left of the current one.
        Self {
            blocks: [ptr::null_mut(); KEPT],
            current: 0,
            used: BLOCK,
        }
    }

    /// Makes another block the current one: one that is not used any more, or a new one. `None` if memory is short.
    fn turn(&mut self, gfp: Gfp<'_>) -> Option<()> {
        let unused = |block: &*mut u8| {
            // SAFETY: By the type invariants `self` owns a reference to the pages.
            !block.is_null() && unsafe { bindings::packet_pages_unused((*block).cast()) }
        };
        let next = self.current.wrapping_add(1) % KEPT;
        let found = self.blocks.iter().position(unused);
        let place = found
            .or_else(|| self.blocks.iter().position(|block| block.is_null()))
            .unwrap_or(next);
        let block = self.blocks.get_mut(place)?;
        if found.is_none() {
            // SAFETY: The flags fit the context, by their type.
            let new = unsafe { bindings::packet_pages_alloc(ORDER, gfp.as_raw()) };
            if new.is_null() {
                return None;
            }
            // INVARIANT: The new pages have one reference.
            let old = core::mem::replace(block, new.cast());
            // SAFETY: By the type invariants, until now. Packets that still use the pages have references of their own.
            unsafe { put(old) };
        }
        // INVARIANT: No packet refers to the block.
        self.current = place;
        self.used = 0;
        Some(())
    }

    /// A part of at least `least` bytes, and no more than `most`. `None` if memory is short, or `least` is larger than a block.
    fn take(&mut self, least: usize, most: usize, gfp: Gfp<'_>) -> Option<Part<'_>> {
        let left = BLOCK.saturating_sub(self.used);
        if left < least.max(1) {
            if least > BLOCK {
                return None;
            }
            self.turn(gfp)?;
        }
        let offset = self.used;
        let len = most.max(least).min(BLOCK.saturating_sub(offset));
        // INVARIANT: The part ends there.
        let end = offset.saturating_add(len);
        self.used = end.checked_next_multiple_of(ALIGN).unwrap_or(BLOCK);
        // INVARIANT: No packet refers to the bytes, by the type invariants, and the next part begins behind them.
        Some(Part {
            block: *self.blocks.get(self.current)?,
            offset,
            len,
            stock: PhantomData,
        })
    }
}

/// Drops a reference to a block, if it is one.
///
/// # Safety
///
/// `block` is null, or the caller owns a reference to it, which it does not use any more.
unsafe fn put(block: *mut u8) {
    if !block.is_null() {
        // SAFETY: By the safety requirements.
        unsafe { bindings::packet_pages_put(block.cast()) };
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        for block in self.blocks {
            // SAFETY: By the type invariants.
            unsafe { put(block) };
        }
    }
}

impl PacketPages {
    /// Keeps no pages yet. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        let count = nr_cpu_ids() as usize;
        let mut stocks = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let stock = new_spinlock_bh!(Stock::new(), "PacketPages::stocks");
            stocks.push(KBox::pin_init(stock, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(Self { stocks })
    }

    /// Adds a part of at least `least` bytes to a packet, as [`Part::add_to`]; of `most`, if as many are left. `None` also as for
    /// [`Stock::take`]. Softirq or process context, not with interrupts disabled.
    pub(super) fn add_part(
        &self,
        skb: &mut SkBuff,
        (least, most): (usize, usize),
        gfp: Gfp<'_>,
    ) -> Option<(*mut u8, usize)> {
        let cpu = CpuId::current().as_u32() as usize;
        let mut stock = self.stocks.get(cpu)?.lock();
        stock.take(least, most, gfp)?.add_to(skb)
    }
}

impl SkBuff {
    /// Whether all bytes of a received packet are as a sender on this machine wrote them to [`PacketPages`].
    ///
    /// Whatever changes a packet on its way does so in a copy, or in the linear part, to which it moves the bytes; and before it
    /// damages one on purpose (netem) it has the checksum calculated. Headers, in front of the packet, may have been changed.
    #[inline]
    pub fn is_as_written(&self) -> bool {
        // SAFETY: The packet is valid.
        unsafe { bindings::skb_in_packet_pages(self.as_raw()) }
    }
}
