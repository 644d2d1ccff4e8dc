// SPDX-License-Identifier: GPL-2.0

//! Rings: queues of fixed-size slots between the driver and user space or a kernel consumer.
//!
//! A *user* ring is memory mapped by a process: `struct rxe_queue_buf` of `<rdma/rdma_user_rxe.h>`. Every word of it
//! may change at any time, so this file follows four rules:
//!
//! * sizes are stored in kernel memory; those in the header are only for the process;
//! * the kernel never reads back the index that it owns: it has its own copy;
//! * the other side's index is masked when it is loaded, so it is always the index of a slot;
//! * a slot is copied, once, before it is parsed ([`Consumer::read`]).
//!
//! A *kernel* ring (slots with [`RingIndices`]) is ordinary memory and needs none of this.
//!
//! Rings are protected by the lock of their queue.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Mappings::table` | the offsets at which a context's rings are mapped | process, below `mmap_lock` | nothing |

use core::ops::Range;
use kernel::mm::virt::VmaNew;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};
use kernel_ext::shared::SharedMem;
use kernel_ext::shared_bytes::SharedBytes;
use rdma::{MaySleep, Udata};

#[cfg(CONFIG_KUNIT = "y")]
mod kunit;

/// Offsets in the header of a ring; see `struct rxe_queue_buf`.
mod layout {
    pub(super) const LOG2_ELEMENT_SIZE: usize = 0;
    pub(super) const INDEX_MASK: usize = 4;
    pub(super) const PRODUCER: usize = 128;
    pub(super) const CONSUMER: usize = 256;
    pub(super) const DATA: usize = 384;
}

/// Minimum size of a slot: a cache line, as in the C driver.
const MIN_SLOT: usize = 64;

/// The location of a ring for user space: `struct mminfo`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MmapInfo {
    /// The offset for `mmap()` of the command file, in bytes.
    pub(crate) offset: u64,
    /// The size to map, in bytes; a multiple of the page size.
    pub(crate) size: u32,
}

impl MmapInfo {
    /// Size of `struct mminfo`.
    pub(crate) const SIZE: usize = 16;

    /// The bytes of `struct mminfo`: `offset`, `size`, padding.
    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.offset.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_ne_bytes());
        bytes
    }
}

/// A ring is full: one slot is always unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The number of slots for `entries` elements: a power of two, one of them unused.
///
/// # Errors
///
/// `EINVAL` on overflow.
fn slots_for(entries: u32) -> Result<u32> {
    entries
        .checked_add(1)
        .and_then(u32::checked_next_power_of_two)
        .ok_or(EINVAL)
}

/// Indices of a ring in kernel memory: the used slots, from the oldest on.
pub(crate) struct RingIndices {
    mask: u32,
    first: u32,
    len: u32,
}

impl RingIndices {
    /// Indices of an empty ring for at least `entries` elements.
    ///
    /// # Errors
    ///
    /// `EINVAL` on overflow.
    pub(crate) fn new(entries: u32) -> Result<Self> {
        Ok(Self {
            mask: slots_for(entries)? - 1,
            first: 0,
            len: 0,
        })
    }

    /// Number of slots.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        (self.mask as usize).wrapping_add(1)
    }

    /// Maximum number of used slots.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.mask
    }

    /// Number of used slots.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Whether no slot is used.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocates the slot after the newest one.
    ///
    /// # Errors
    ///
    /// [`Full`].
    #[inline]
    pub(crate) fn add(&mut self) -> Result<usize, Full> {
        if self.len >= self.capacity() {
            return Err(Full);
        }
        let place = self.first.wrapping_add(self.len) & self.mask;
        self.len = self.len.wrapping_add(1);
        Ok(place as usize)
    }

    /// The used slots, from the oldest one up to the end of the ring.
    #[inline]
    pub(crate) fn run(&self) -> Range<usize> {
        let from = self.first as usize;
        from..from.wrapping_add(self.len as usize).min(self.slots())
    }

    /// Frees the oldest slots.
    #[inline]
    pub(crate) fn free(&mut self, count: u32) {
        let count = count.min(self.len);
        self.first = self.first.wrapping_add(count) & self.mask;
        self.len = self.len.wrapping_sub(count);
    }
}

/// The memory of a user ring, and its trusted sizes.
struct Shared {
    memory: Arc<SharedMem>,
    mapping: Mapping,
    mask: u32,
    slot: usize,
}

impl Shared {
    fn new(mappings: &Arc<Mappings>, entries: u32, element: usize, ctx: &MaySleep) -> Result<Self> {
        let slots = slots_for(entries)?;
        let slot = element
            .max(MIN_SLOT)
            .checked_next_power_of_two()
            .ok_or(EINVAL)?;
        let data = slot.checked_mul(slots as usize).ok_or(EINVAL)?;
        let size = data.checked_add(layout::DATA).ok_or(EINVAL)?;
        let memory = Arc::new(SharedMem::new(size, ctx)?, GFP_KERNEL)?;
        let mapping = Mappings::add(mappings, &memory)?;
        let mask = slots - 1;
        memory
            .store_release_u32(layout::LOG2_ELEMENT_SIZE, slot.trailing_zeros())
            .ok_or(EINVAL)?;
        memory
            .store_release_u32(layout::INDEX_MASK, mask)
            .ok_or(EINVAL)?;
        Ok(Self {
            memory,
            mapping,
            mask,
            slot,
        })
    }

    /// The other side's index, masked.
    fn load(&self, word: usize) -> u32 {
        self.memory.load_acquire_u32(word).unwrap_or(0) & self.mask
    }

    fn store(&self, word: usize, index: u32) {
        // The header is within any ring.
        let _ = self.memory.store_release_u32(word, index & self.mask);
    }

    /// The distance from `from` on to `to`.
    fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    fn offset_of(&self, index: u32) -> usize {
        let slots = (index & self.mask) as usize;
        slots.wrapping_mul(self.slot).wrapping_add(layout::DATA)
    }
}

/// The kernel's side of a user ring that the process fills: a send or receive queue.
pub(crate) struct Consumer {
    shared: Shared,
    /// The oldest slot that is not consumed: the kernel's copy.
    next: u32,
}

impl Consumer {
    /// Creates a ring for `entries` elements of `element` bytes, which the user context of `mappings` can map.
    ///
    /// The ring may have more slots: see [`Self::capacity`].
    ///
    /// # Errors
    ///
    /// `EINVAL` on overflow, `ENOMEM`.
    pub(crate) fn new(
        mappings: &Arc<Mappings>,
        entries: u32,
        element: usize,
        ctx: &MaySleep,
    ) -> Result<Self> {
        Ok(Self {
            shared: Shared::new(mappings, entries, element, ctx)?,
            next: 0,
        })
    }

    /// Maximum number of elements.
    pub(crate) fn capacity(&self) -> u32 {
        self.shared.mask
    }

    /// Number of elements that are posted and not consumed.
    ///
    /// A following [`Self::read`] sees their contents (acquire).
    #[inline]
    pub(crate) fn available(&self) -> u32 {
        self.shared
            .distance(self.next, self.shared.load(layout::PRODUCER))
    }

    /// Whether the process has written an index that the ring does not have: then nothing is known of what it has posted.
    #[inline]
    pub(crate) fn is_broken(&self) -> bool {
        let memory = &self.shared.memory;
        let producer = memory.load_acquire_u32(layout::PRODUCER);
        producer.is_none_or(|producer| producer > self.shared.mask)
    }

    /// Copies bytes at `offset` of the element that is `nth` after the oldest one.
    ///
    /// Each byte must be read only once: a second read may return another value. Returns `false`, and copies nothing,
    /// where the bytes are not within a slot. The caller has checked `nth` against [`Self::available`]; beyond that the
    /// bytes are stale.
    #[inline]
    pub(crate) fn read(&self, nth: u32, offset: usize, bytes: &mut [u8]) -> bool {
        let copied = self
            .place(nth, offset, bytes.len())
            .and_then(|at| self.shared.memory.copy_out(at, bytes));
        copied.is_some()
    }

    /// As [`Self::read`]: the bytes, for the caller to copy once.
    #[inline]
    pub(crate) fn bytes(&self, nth: u32, offset: usize, len: usize) -> Option<SharedBytes<'_>> {
        let at = self.place(nth, offset, len)?;
        self.shared.memory.bytes(at, len)
    }

    /// Where `len` bytes at an offset of an element are in the memory. `None` where they are not within a slot.
    #[inline]
    fn place(&self, nth: u32, offset: usize, len: usize) -> Option<usize> {
        let end = offset.checked_add(len)?;
        if end > self.shared.slot {
            return None;
        }
        let slot = self.shared.offset_of(self.next.wrapping_add(nth));
        Some(slot.wrapping_add(offset))
    }

    /// Posts an element of two parts on behalf of the process.
    ///
    /// # Errors
    ///
    /// [`Full`], with the ring unchanged; also where the element is larger than a slot.
    pub(crate) fn post(&mut self, fixed: &[u8], rest: &[u8]) -> Result<(), Full> {
        let posted = self.available();
        let length = fixed.len().checked_add(rest.len()).ok_or(Full)?;
        if posted == self.capacity() || length > self.shared.slot {
            return Err(Full);
        }
        let index = self.next.wrapping_add(posted);
        let slot = self.shared.offset_of(index);
        let memory = &self.shared.memory;
        memory.copy_in(slot, fixed).ok_or(Full)?;
        let behind = slot.wrapping_add(fixed.len());
        memory.copy_in(behind, rest).ok_or(Full)?;
        self.shared.store(layout::PRODUCER, index.wrapping_add(1));
        Ok(())
    }

    /// Returns the `n` oldest slots to the process.
    #[inline]
    pub(crate) fn advance(&mut self, n: u32) {
        self.next = self.next.wrapping_add(n) & self.shared.mask;
        self.shared.store(layout::CONSUMER, self.next);
    }

    /// Consumes all posted elements (for a QP that changes to RESET).
    pub(crate) fn clear(&mut self) {
        let posted = self.available();
        self.advance(posted);
    }

    /// Moves the posted elements to `other`, an empty ring that replaces this one.
    ///
    /// Afterwards this ring is empty for the process.
    ///
    /// # Errors
    ///
    /// [`Full`] where `other` is too small; the elements then remain here.
    pub(crate) fn move_to(&mut self, other: &mut Self) -> Result<(), Full> {
        let posted = self.available();
        if posted > other.capacity() || self.shared.slot != other.shared.slot {
            return Err(Full);
        }
        let mut piece = [0; MIN_SLOT];
        for nth in 0..posted {
            let from = self.shared.offset_of(self.next.wrapping_add(nth));
            let to = other.shared.offset_of(nth);
            for at in (0..self.shared.slot).step_by(MIN_SLOT) {
                let copied = self
                    .shared
                    .memory
                    .copy_out(from.wrapping_add(at), &mut piece);
                copied.ok_or(Full)?;
                let copied = other.shared.memory.copy_in(to.wrapping_add(at), &piece);
                copied.ok_or(Full)?;
            }
        }
        other.shared.store(layout::PRODUCER, posted);
        self.advance(posted);
        Ok(())
    }

    /// The location of the ring for the process.
    pub(crate) fn mmap_info(&self) -> MmapInfo {
        self.shared.mapping.info
    }
}

/// The kernel's side of a user ring that the kernel fills: a completion queue.
pub(crate) struct Producer {
    shared: Shared,
    /// The next slot to fill: the kernel's copy.
    next: u32,
}

impl Producer {
    /// Creates a ring for `entries` elements of `element` bytes; see [`Consumer::new`].
    pub(crate) fn new(
        mappings: &Arc<Mappings>,
        entries: u32,
        element: usize,
        ctx: &MaySleep,
    ) -> Result<Self> {
        Ok(Self {
            shared: Shared::new(mappings, entries, element, ctx)?,
            next: 0,
        })
    }

    /// Maximum number of elements.
    pub(crate) fn capacity(&self) -> u32 {
        self.shared.mask
    }

    /// Number of elements that the process has not taken.
    pub(crate) fn len(&self) -> u32 {
        self.shared
            .distance(self.shared.load(layout::CONSUMER), self.next)
    }

    /// Whether the process has taken all elements.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes an element and publishes it to the process.
    ///
    /// # Errors
    ///
    /// [`Full`], with the ring unchanged; also where `element` is larger than a slot.
    #[inline]
    pub(crate) fn push(&mut self, element: &[u8]) -> Result<(), Full> {
        if self.len() == self.capacity() || element.len() > self.shared.slot {
            return Err(Full);
        }
        let slot = self.shared.offset_of(self.next);
        self.shared.memory.copy_in(slot, element).ok_or(Full)?;
        self.next = self.next.wrapping_add(1) & self.shared.mask;
        self.shared.store(layout::PRODUCER, self.next);
        Ok(())
    }

    /// Takes the oldest element on behalf of the process; returns whether there was one.
    pub(crate) fn take(&mut self, element: &mut [u8]) -> bool {
        let taken = self.shared.load(layout::CONSUMER);
        if self.shared.distance(taken, self.next) == 0 || element.len() > self.shared.slot {
            return false;
        }
        let slot = self.shared.offset_of(taken);
        let copied = self.shared.memory.copy_out(slot, element).is_some();
        self.shared.store(layout::CONSUMER, taken.wrapping_add(1));
        copied
    }

    /// Moves the elements that the process has not taken to `other`, an empty ring that replaces this one.
    ///
    /// Afterwards this ring is empty for the process.
    ///
    /// # Errors
    ///
    /// [`Full`] where `other` is too small; the elements then remain here.
    pub(crate) fn move_to(&mut self, other: &mut Self) -> Result<(), Full> {
        let waiting = self.len();
        if waiting > other.capacity() || self.shared.slot != other.shared.slot {
            return Err(Full);
        }
        let mut element = [0; 2 * MIN_SLOT];
        let element = element.get_mut(..self.shared.slot).ok_or(Full)?;
        for nth in (1..=waiting).rev() {
            let from = self.shared.offset_of(self.next.wrapping_sub(nth));
            self.shared.memory.copy_out(from, element).ok_or(Full)?;
            other.push(element)?;
        }
        self.shared.store(layout::CONSUMER, self.next);
        Ok(())
    }

    /// The location of the ring for the process.
    pub(crate) fn mmap_info(&self) -> MmapInfo {
        self.shared.mapping.info
    }
}

/// A command of user space that creates or changes an object with rings.
#[derive(Clone, Copy)]
pub(crate) struct UserCommand<'a> {
    /// The driver's part of the command, and of its response.
    pub(crate) udata: &'a Udata<'a>,
    /// The rings of the user context.
    pub(crate) mappings: &'a Arc<Mappings>,
}

/// The rings of a user context that are not mapped yet.
///
/// A ring is mapped once, as in the C driver: `mmap()` removes it from the table, and the mapping then holds a
/// reference to the memory.
#[pin_data]
pub(crate) struct Mappings {
    /// Taken in process context only; nothing is taken inside.
    #[pin]
    table: Mutex<Table>,
}

struct Table {
    next: u64,
    waiting: KVec<(u64, Arc<SharedMem>)>,
}

impl Table {
    /// The position of the ring with an offset.
    fn position(&self, offset: u64) -> Option<usize> {
        self.waiting.iter().position(|(at, _)| *at == offset)
    }
}

/// A ring's entry in [`Mappings`], which is removed with the ring if it was never mapped.
struct Mapping {
    table: Arc<Mappings>,
    info: MmapInfo,
}

impl Mappings {
    /// An empty table.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_mutex!(
                    Table { next: kernel::page::PAGE_SIZE as u64, waiting: KVec::new() },
                    "rxe_mappings"
                ),
            }),
            GFP_KERNEL,
        )
    }

    fn add(this: &Arc<Self>, memory: &Arc<SharedMem>) -> Result<Mapping> {
        let size = u32::try_from(memory.len()).map_err(|_| EINVAL)?;
        let mut table = this.table.lock();
        let offset = table.next;
        let next = offset.checked_add(size.into()).ok_or(ENOSPC)?;
        table.waiting.push((offset, memory.clone()), GFP_KERNEL)?;
        table.next = next;
        drop(table);
        Ok(Mapping {
            table: this.clone(),
            info: MmapInfo { offset, size },
        })
    }

    fn take(&self, offset: u64) -> Option<Arc<SharedMem>> {
        let mut table = self.table.lock();
        let at = table.position(offset)?;
        table.waiting.remove(at).ok().map(|(_, memory)| memory)
    }

    /// Maps the ring at byte `offset` into a process: the driver's `mmap`.
    ///
    /// # Errors
    ///
    /// `EINVAL` where there is no such ring, it is mapped already, or `vma` is larger.
    pub(crate) fn map(&self, offset: u64, vma: &VmaNew, ctx: &MaySleep) -> Result {
        // Held during the mapping, so that a ring that is being dropped finds its entry.
        let mut table = self.table.lock();
        let at = table.position(offset).ok_or(EINVAL)?;
        let (_, memory) = table.waiting.get(at).ok_or(EINVAL)?;
        // After a failure, a smaller mapping may still succeed.
        memory.map(vma, ctx)?;
        let mapped = table.waiting.remove(at);
        drop(table);
        drop(mapped);
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        drop(self.table.take(self.info.offset));
    }
}
