// SPDX-License-Identifier: GPL-2.0

//! Kernel memory that is mapped for DMA by a device: `ib_dma_map_single`, `ib_dma_map_page`.
//!
//! | | [`Buffer`] | [`Pages`] |
//! |---|---|---|
//! | the memory is | in one piece, up to some megabytes | single pages |
//! | who has it | one owner: the client, or a request that is posted | everybody, counted: peers may reach it at any time |
//! | the CPU | reads and writes slices | copies |
//!
//! In which [direction](Direction) data goes is a part of the type.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ops::Range, ptr::NonNull};

use kernel::{ffi::c_void, page::PAGE_SIZE, prelude::*, sync::Arc};
use kernel_ext::page::SharedPage;
use rdma_bindings::{self as bindings, dma_data_direction, scatterlist};

use super::Device;

mod sealed {
    pub trait Sealed {}
}

/// In which direction data goes.
pub trait Direction: sealed::Sealed + Send + Sync + 'static {
    /// `enum dma_data_direction`.
    const RAW: dma_data_direction;
    /// Whether the device, or a peer through it, may write to the memory.
    const IS_WRITTEN: bool;
}

macro_rules! directions {
    ($($(#[$meta:meta])* $name:ident($raw:ident, $is_written:literal);)*) => {
        $(
            $(#[$meta])*
            pub struct $name;

            impl sealed::Sealed for $name {}

            impl Direction for $name {
                const RAW: dma_data_direction = bindings::$raw as dma_data_direction;
                const IS_WRITTEN: bool = $is_written;
            }
        )*
    };
}

directions! {
    /// The device only reads.
    ToDevice(dma_data_direction_DMA_TO_DEVICE, false);
    /// The device only writes.
    FromDevice(dma_data_direction_DMA_FROM_DEVICE, true);
    /// The device reads and writes.
    Bidirectional(dma_data_direction_DMA_BIDIRECTIONAL, true);
}

/// Memory in one piece, with one owner.
///
/// # Invariants
///
/// All of `memory` is mapped at `address` for `device`.
pub struct Buffer<'d, D: Direction = Bidirectional> {
    memory: KVec<u8>,
    address: u64,
    device: Device<'d>,
    _direction: PhantomData<fn() -> D>,
}

impl<'d, D: Direction> Buffer<'d, D> {
    /// Allocates and maps `length` bytes, which are zero.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device<'d>, length: u32, flags: kernel::alloc::Flags) -> Result<Self> {
        Self::map(device, KVec::from_elem(0u8, length as usize, flags)?)
    }

    /// Maps memory. Any context.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` for more than 4 GiB.
    pub fn map(device: &Device<'d>, mut memory: KVec<u8>) -> Result<Self> {
        u32::try_from(memory.len()).map_err(|_| EINVAL)?;
        let start: *mut c_void = memory.as_mut_ptr().cast();
        // SAFETY: The device is registered, and the memory is there until it is unmapped.
        let address = unsafe {
            let raw = device.as_raw();
            let address = bindings::ib_dma_map_single(raw, start, memory.len(), D::RAW);
            if bindings::ib_dma_mapping_error(raw, address) != 0 {
                return Err(ENOMEM);
            }
            address
        };
        // INVARIANT: It was just mapped.
        Ok(Self {
            memory,
            address,
            device: device.clone(),
            _direction: PhantomData,
        })
    }

    /// Unmaps the memory, and gives it back. Any context.
    pub fn unmap(mut self) -> KVec<u8> {
        self.unmap_now();
        // Nothing is mapped any more: unmapping that does nothing.
        core::mem::take(&mut self.memory)
    }

    fn unmap_now(&self) {
        if self.memory.is_empty() {
            return;
        }
        // SAFETY: By the type invariants; nobody uses the memory.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_unmap_single(raw, self.address, self.memory.len(), D::RAW);
        }
    }

    /// The device that it is mapped for.
    pub fn device(&self) -> &Device<'d> {
        &self.device
    }

    /// How many bytes there are.
    pub fn length(&self) -> u32 {
        u32::try_from(self.memory.len()).unwrap_or(u32::MAX)
    }

    /// Where the device finds the memory.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.memory
    }

    /// The memory, for changing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }

    /// Copies `bytes` to the beginning of the memory: as many as it has room for.
    pub fn write(&mut self, bytes: &[u8]) {
        for (to, from) in self.memory.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Hands the memory over to the device.
    pub(super) fn to_device(&self) {
        let length = self.memory.len();
        // SAFETY: By the type invariants.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_sync_single_for_device(raw, self.address, length, D::RAW);
        }
    }

    /// Takes the memory back from the device.
    pub(super) fn to_cpu(&self) {
        let length = self.memory.len();
        // SAFETY: By the type invariants.
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

/// Whole pages, which peers may reach at any time: for [`Mr`](super::Mr)s.
///
/// # Invariants
///
/// `list` is a scatter list of all `pages`, which is mapped for `device` in `mapped` pieces. Nobody has references to the
/// bytes.
pub struct Pages<'d, D: Direction = Bidirectional> {
    pages: KVec<kernel::page::Page>,
    list: KVec<scatterlist>,
    mapped: u32,
    device: Device<'d>,
    _direction: PhantomData<fn() -> D>,
}

// SAFETY: Pages and what describes them may be used from any thread; the bytes are only copied.
unsafe impl<D: Direction> Send for Pages<'_, D> {}
// SAFETY: As above.
unsafe impl<D: Direction> Sync for Pages<'_, D> {}

impl<'d, D: Direction> Pages<'d, D> {
    /// Allocates and maps pages for `length` bytes, which are zero. May sleep.
    ///
    /// # Errors
    ///
    /// `EINVAL` for nothing, `ENOMEM`.
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
        // SAFETY: There is room for so many entries, and so many pages.
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
        // INVARIANT: They were just mapped.
        let pages = Self {
            pages,
            list,
            mapped,
            device: device.clone(),
            _direction: PhantomData,
        };
        Ok(Arc::new(pages, GFP_KERNEL)?)
    }

    /// How many bytes there are: whole pages.
    pub fn length(&self) -> usize {
        self.pages.len().saturating_mul(PAGE_SIZE)
    }

    /// How many pages there are.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// The scatter list, as it is mapped. C writes to its entries only while it maps them.
    pub(super) fn list(&self) -> (*mut scatterlist, u32) {
        (self.list.as_ptr().cast_mut(), self.mapped)
    }

    /// Copies bytes out. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they are not all inside.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result {
        self.check(offset, to.len())?;
        self.sync(bindings::rdma_sync_sg_for_cpu);
        self.each_page(offset, to.len(), |page, at, range| {
            page.read(at, to.get_mut(range).ok_or(EINVAL)?)
        })
    }

    /// Copies bytes in. Any context.
    ///
    /// # Errors
    ///
    /// `EINVAL` if they do not all fit.
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
        // SAFETY: By the type invariants.
        unsafe { sync(self.device.as_raw(), list, self.list.len() as i32, D::RAW) };
    }

    /// Calls `f` with each page of a range, where in it that begins, and which bytes of the range are there.
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
            // SAFETY: The page is ours, and by the type invariants nobody has references to its bytes.
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
        // SAFETY: By the type invariants; nobody uses the pages.
        unsafe {
            let raw = self.device.as_raw();
            bindings::ib_dma_unmap_sg(raw, list, self.list.len() as i32, D::RAW);
        }
    }
}
