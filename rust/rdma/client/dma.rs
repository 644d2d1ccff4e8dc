// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that is mapped for DMA by a device: `ib_dma_map_single`, `ib_dma_map_page`.
//!
//! | | [`Buffer`] | [`Pages`] |
//! |---|---|---|
//! | memory | contiguous, up to some megabytes | single pages |
//! | owner | one: the client, or a posted request | counted: remote peers may access it at any time |
//! | CPU access | slices | copies |
//!
//! The [direction](Direction) of the DMA is a part of the type.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ops::Range, ptr::NonNull};

use kernel::{ffi::c_void, page::PAGE_SIZE, prelude::*, sync::Arc};
use kernel_ext::{page::SharedPage, zeroed::zeroed};
use rdma_bindings::{self as bindings, dma_data_direction, scatterlist};

use super::Device;

mod sealed {
    pub trait Sealed {}
}

/// The direction of DMA.
pub trait Direction: sealed::Sealed + Send + Sync + 'static {
    /// `enum dma_data_direction`.
    const RAW: dma_data_direction;
    /// Whether the device, for itself or a remote peer, may write to the memory.
    const IS_WRITTEN: bool;
}

macro_rules! directions {
    ($($(#[$meta:meta])* $name:ident($raw:ident, $is_written:literal);)*) => {
        $(
            $(#[$meta])*
            pub struct $name;

            impl sealed::Sealed for $name {}

            impl Direction for $name {
                const RAW: dma_data_direction = bindings::$raw;
                const IS_WRITTEN: bool = $is_written;
            }
        )*
    };
}

directions! {
    /// The device only reads.
    ToDevice(DMA_TO_DEVICE, false);
    /// The device only writes.
    FromDevice(DMA_FROM_DEVICE, true);
    /// The device reads and writes.
    Bidirectional(DMA_BIDIRECTIONAL, true);
}

/// Contiguous memory with one owner.
///
/// # Invariants
///
/// All of `memory` is mapped for `device` at the DMA address `address`.
pub struct Buffer<'d, D: Direction = Bidirectional> {
    memory: KVec<u8>,
    address: u64,
    device: Device<'d>,
    _direction: PhantomData<fn() -> D>,
}

impl<'d, D: Direction> Buffer<'d, D> {
    /// Allocates and maps `length` zeroed bytes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, length: u32, flags: kernel::alloc::Flags) -> Result<Self> {
        Self::map(device, zeroed(length as usize, flags)?)
    }

    /// Maps memory. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for more than 4 GiB.
    pub fn map(device: &Device<'d>, mut memory: KVec<u8>) -> Result<Self> {
        u32::try_from(memory.len()).map_err(|_| EINVAL)?;
        let start: *mut c_void = memory.as_mut_ptr().cast();
        // SAFETY: The device is registered, and the vector is not dropped before it is unmapped.
        let address = unsafe {
            let raw = device.as_raw();
            let address = bindings::ib_dma_map_single(raw, start, memory.len(), D::RAW);
            if bindings::ib_dma_mapping_error(raw, address) != 0 {
                return Err(ENOMEM);
            }
            address
        };
        // INVARIANT: The memory was just mapped.
        Ok(Self {
            memory,
            address,
            device: device.clone(),
            _direction: PhantomData,
        })
    }

    /// Unmaps the memory, and returns it. Any context.
    pub fn unmap(mut self) -> KVec<u8> {
        self.unmap_now();
        // The empty vector that is left is not unmapped.
        core::mem::take(&mut self.memory)
    }

    fn unmap_now(&self) {
        if self.memory.is_empty() {
            return;
        }
        // SAFETY: By the type invariants the memory is mapped, and no request uses it, since `self` owns it.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_unmap_single(raw, self.address, self.memory.len(), D::RAW);
        }
    }

    /// The device that the memory is mapped for.
    pub fn device(&self) -> &Device<'d> {
        &self.device
    }

    /// The length in bytes.
    pub fn length(&self) -> u32 {
        u32::try_from(self.memory.len()).unwrap_or(u32::MAX)
    }

    /// The DMA address.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// The memory, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Copies `bytes` to the beginning of the memory, truncated to its length.
    pub fn write(&mut self, bytes: &[u8]) {
        for (to, from) in self.memory.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Synchronises the memory for the device.
    pub(super) fn to_device(&self) {
        let length = self.memory.len();
        // SAFETY: By the type invariants the memory is mapped.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_sync_single_for_device(raw, self.address, length, D::RAW);
        }
    }

    /// Synchronises the memory for the CPU.
    pub(super) fn to_cpu(&self) {
        let length = self.memory.len();
        // SAFETY: By the type invariants the memory is mapped.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_sync_single_for_cpu(raw, self.address, length, D::RAW);
        }
    }
}

impl<D: Direction> Drop for Buffer<'_, D> {
    fn drop(&mut self) {
        self.unmap_now();
    }
}

/// Whole pages that remote peers may access at any time, for [`Mr`](super::Mr)s.
///
/// # Invariants
///
/// `list` is a scatter list of all `pages`, which is mapped for `device` in `mapped` entries. There are no references to
/// the bytes.
pub struct Pages<'d, D: Direction = Bidirectional> {
    pages: KVec<kernel::page::Page>,
    list: KVec<scatterlist>,
    mapped: u32,
    device: Device<'d>,
    _direction: PhantomData<fn() -> D>,
}

// SAFETY: Pages and their scatter list may be used from any thread; the bytes are only copied.
unsafe impl<D: Direction> Send for Pages<'_, D> {}
// SAFETY: Pages and their scatter list may be used from any thread; the bytes are only copied.
unsafe impl<D: Direction> Sync for Pages<'_, D> {}

impl<'d, D: Direction> Pages<'d, D> {
    /// Allocates and maps zeroed pages for `length` bytes. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length of 0, `ENOMEM`.
    pub fn new(device: &Device<'d>, length: u32, sleep: &crate::MaySleep) -> Result<Arc<Self>> {
        sleep.check();
        let count = (length as usize).div_ceil(PAGE_SIZE);
        if count == 0 {
            return Err(EINVAL);
        }
        let mut pages = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut raw_pages = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let page = kernel::page::Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?;
            raw_pages.push(page.as_ptr(), GFP_KERNEL)?;
            pages.push(page, GFP_KERNEL)?;
        }
        let mut list = KVec::<scatterlist>::with_capacity(count, GFP_KERNEL)?;
        let room = list.spare_capacity_mut().as_mut_ptr().cast::<scatterlist>();
        // SAFETY: `list` has an entry for each of the pages.
        let mapped = unsafe {
            let all = count as u32;
            bindings::rdma_sg_set_pages(room, raw_pages.as_mut_ptr().cast(), all);
            list.inc_len(count);
            bindings::ib_dma_map_sg(device.as_raw(), list.as_mut_ptr(), all as i32, D::RAW)
        };
        let mapped = u32::try_from(mapped).unwrap_or(0);
        if mapped == 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: The list was just mapped.
        let pages = Self {
            pages,
            list,
            mapped,
            device: device.clone(),
            _direction: PhantomData,
        };
        Ok(Arc::new(pages, GFP_KERNEL)?)
    }

    /// The length in bytes, a multiple of the page size.
    pub fn length(&self) -> usize {
        self.pages.len().saturating_mul(PAGE_SIZE)
    }

    /// The number of pages.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// The mapped scatter list. C writes to its entries only while it maps them.
    pub(super) fn list(&self) -> (*mut scatterlist, u32) {
        (self.list.as_ptr().cast_mut(), self.mapped)
    }

    /// Copies bytes from the pages. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range outside the pages.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        self.check(offset, to.len())?;
        self.sync(bindings::rdma_sync_sg_for_cpu);
        self.each_page(offset, to.len(), |page, at, range| {
            page.read(at, to.get_mut(range).ok_or(EINVAL)?)
        })
    }

    /// Copies bytes to the pages. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range outside the pages.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result {
        self.check(offset, from.len())?;
        self.each_page(offset, from.len(), |page, at, range| {
            page.write(at, from.get(range).ok_or(EINVAL)?)
        })?;
        self.sync(bindings::rdma_sync_sg_for_device);
        Ok(())
    }

    fn check(&self, offset: usize, length: usize) -> Result {
        match offset.checked_add(length) {
            Some(end) if end <= self.length() => Ok(()),
            _ => Err(EINVAL),
        }
    }

    fn sync(
        &self,
        sync: unsafe extern "C" fn(
            *mut bindings::ib_device,
            *mut scatterlist,
            kernel::ffi::c_int,
            dma_data_direction,
        ),
    ) {
        let list = self.list.as_ptr().cast_mut();
        // SAFETY: By the type invariants the list is mapped.
        unsafe { sync(self.device.as_raw(), list, self.list.len() as i32, D::RAW) };
    }

    /// Calls `f` with each page of a range, the offset in the page, and the corresponding part of the range.
    fn each_page(
        &self,
        offset: usize,
        length: usize,
        mut f: impl FnMut(SharedPage<'_>, usize, Range<usize>) -> Result,
    ) -> Result {
        let mut done = 0usize;
        while done < length {
            let at = offset.checked_add(done).ok_or(EINVAL)?;
            let page = self.pages.get(at / PAGE_SIZE).ok_or(EINVAL)?;
            let inside = at % PAGE_SIZE;
            let end = length.min(done.saturating_add(PAGE_SIZE.saturating_sub(inside)));
            let raw = NonNull::new(page.as_ptr()).ok_or(EINVAL)?;
            // SAFETY: `self` owns the page, and by the type invariants there are no references to its bytes.
            let page = unsafe { SharedPage::from_raw(raw.cast()) };
            f(page, inside, done..end)?;
            done = end;
        }
        Ok(())
    }
}

impl<D: Direction> Drop for Pages<'_, D> {
    fn drop(&mut self) {
        let list = self.list.as_mut_ptr();
        // SAFETY: By the type invariants the list is mapped, and no region uses the pages, since each holds a reference.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_unmap_sg(raw, list, self.list.len() as i32, D::RAW);
        }
    }
}
