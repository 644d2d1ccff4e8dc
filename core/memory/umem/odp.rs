// SPDX-License-Identifier: GPL-2.0

//! User memory with on-demand paging (ODP).
//!
//! Its lock, `umem_mutex` of `struct ib_umem_odp`, protects the table of pages. It is taken in process context and in
//! MMU notifiers, which memory reclaim may call: while it is held, no other lock is taken and nothing is allocated.
//!
//! C header: `include/rdma/ib_umem_odp.h`.

use kernel::{
    ffi::{c_int, c_ulong},
    page::PAGE_SHIFT,
    prelude::*,
};
use kernel_ext::{
    bindings::{ib_umem_odp, IB_ACCESS_HUGETLB, IB_ACCESS_ON_DEMAND},
    entry::ErrPtr,
    export::export,
};
use rdma::{
    core::{
        umem::{
            odp::{
                self, LockedByCaller, Lookup, LookupError, NewOdp, NotifierOps, OdpMemory, OdpUmem,
                Range,
            },
            AccessFlags,
        },
        Device,
    },
    MaySleep,
};

/// The range extended to whole pages.
fn pages_around(start: u64, len: u64, page_shift: u32) -> Option<Range> {
    let page_size = 1u64.checked_shl(page_shift)?;
    let end = start
        .checked_add(len)?
        .checked_next_multiple_of(page_size)?;
    Some(Range {
        start: start & !(page_size - 1),
        end,
    })
}

/// Registers the MMU notifier of a range.
fn watch(
    new: NewOdp,
    (address, len): (usize, usize),
    page_shift: u32,
    ops: NotifierOps,
    sleep: &MaySleep,
) -> Result<OdpMemory> {
    let range = pages_around(address as u64, len as u64, page_shift).ok_or(EOVERFLOW)?;
    if range.start == range.end {
        return Err(EINVAL);
    }
    new.watch((address, len), range, ops, sleep)
}

/// Makes an ODP umem of the current process.
///
/// # Errors
///
/// `EINVAL` for a length of 0, or access without on-demand paging; `EOVERFLOW`, `ENOMEM`.
fn get(
    device: &Device,
    place: (usize, usize),
    access: AccessFlags,
    ops: NotifierOps,
    sleep: &MaySleep,
) -> Result<OdpMemory> {
    if !access.has(IB_ACCESS_ON_DEMAND) {
        return Err(EINVAL);
    }
    let huge = access.has(IB_ACCESS_HUGETLB);
    let page_shift = if huge {
        odp::huge_page_shift()
    } else {
        PAGE_SHIFT as u32
    };
    let new = NewOdp::of_process(device, access, page_shift, sleep)?;
    watch(new, place, page_shift, ops, sleep)
}

/// Makes an ODP umem of the process of `root`, whose address space must still exist.
fn child(
    root: &OdpUmem,
    place: (usize, usize),
    ops: NotifierOps,
    sleep: &MaySleep,
) -> Result<OdpMemory> {
    if !root.is_implicit() {
        return Err(EINVAL);
    }
    let new = NewOdp::child_of(root, sleep)?;
    // Held until the notifier is registered.
    let _memory = new.memory().ok_or(EFAULT)?;
    watch(new, place, PAGE_SHIFT as u32, ops, sleep)
}

/// Faults in the pages of a range, and leaves the umem locked. Returns the number of pages.
///
/// # Errors
///
/// `EFAULT` for a range outside of the umem, or without a mapping with such access; `EINVAL` if the process has exited,
/// or its pages are smaller than the umem's; `EBUSY`.
fn map_and_lock(
    umem: &OdpUmem,
    (start, len): (u64, u64),
    access: u64,
    fault: bool,
    sleep: &MaySleep,
) -> Result<c_int> {
    let range = pages_around(start, len, umem.page_shift()).ok_or(EFAULT)?;
    let pages = odp::count(range.end.saturating_sub(range.start) >> umem.page_shift())?;
    let lookup = Lookup::new(umem, range, access, fault, sleep)?;
    let locked = loop {
        match lookup.try_lock(sleep) {
            Ok(locked) => break locked,
            Err(LookupError::Again) => {}
            Err(LookupError::Failed(error)) => return Err(error),
        }
    };
    if !locked.pages_large_enough(range) {
        return Err(EINVAL);
    }
    locked.leave();
    Ok(pages)
}

/// Makes an ODP umem. Process context.
///
/// # Errors
///
/// `EINVAL`, `EOVERFLOW`, `ENOMEM`.
#[export]
fn ib_umem_odp_get(
    device: &Device,
    addr: c_ulong,
    size: usize,
    access: c_int,
    ops: NotifierOps,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_odp> {
    ErrPtr(get(device, (addr, size), AccessFlags(access), ops, sleep).map(OdpMemory::into_raw))
}

/// Makes an implicit ODP umem, which stands for the whole address space. Process context.
///
/// # Errors
///
/// `EINVAL` for huge pages, `ENOMEM`.
#[export]
fn ib_umem_odp_alloc_implicit(
    device: &Device,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_odp> {
    let access = AccessFlags(access);
    if access.has(IB_ACCESS_HUGETLB) {
        return ErrPtr(Err(EINVAL));
    }
    let new = NewOdp::of_process(device, access, PAGE_SHIFT as u32, sleep);
    ErrPtr(new.map(|new| new.implicit().into_raw()))
}

/// Makes an ODP umem of a range within an implicit one. Process context.
///
/// # Errors
///
/// `EINVAL`, `EFAULT` if the process has exited, `EOVERFLOW`, `ENOMEM`.
#[export]
fn ib_umem_odp_alloc_child(
    root_umem: &OdpUmem,
    addr: c_ulong,
    size: usize,
    ops: NotifierOps,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem_odp> {
    ErrPtr(child(root_umem, (addr, size), ops, sleep).map(OdpMemory::into_raw))
}

/// Releases an ODP umem that the device does not use any more. Process context.
#[export]
fn ib_umem_odp_release(umem_odp: OdpMemory) {
    drop(umem_odp);
}

/// Faults in pages; the caller unlocks `umem_mutex`. Returns the number of pages, or a negative errno. Process context.
#[export]
fn ib_umem_odp_map_dma_and_lock(
    umem_odp: &OdpUmem,
    start_offset: u64,
    bcnt: u64,
    access_mask: u64,
    fault: bool,
    sleep: &MaySleep,
) -> c_int {
    map_and_lock(umem_odp, (start_offset, bcnt), access_mask, fault, sleep)
        .unwrap_or_else(|error| error.to_errno())
}

/// Unmaps pages from the device. The caller has locked `umem_mutex`.
#[export]
fn ib_umem_odp_unmap_dma_pages(umem_odp: LockedByCaller<'_>, start_offset: u64, bound: u64) {
    umem_odp.unmap(Range {
        start: start_offset,
        end: bound,
    });
}

#[kernel::prelude::kunit_tests(ib_core_odp_range)]
mod tests {
    use super::*;

    fn around(start: u64, len: u64, page_shift: u32) -> Option<(u64, u64)> {
        pages_around(start, len, page_shift).map(|range| (range.start, range.end))
    }

    #[test]
    fn whole_pages() {
        assert_eq!(around(0x1000, 0x1000, 12), Some((0x1000, 0x2000)));
        assert_eq!(around(0x1fff, 2, 12), Some((0x1000, 0x3000)));
        assert_eq!(around(0x20_0001, 1, 21), Some((0x20_0000, 0x40_0000)));
        assert_eq!(around(0x1000, 0, 12), Some((0x1000, 0x1000)));
    }

    #[test]
    fn no_range_that_wraps() {
        assert_eq!(around(u64::MAX, 1, 12), None);
        assert_eq!(around(u64::MAX - 0x10, 0x10, 12), None);
        assert_eq!(around(1, u64::MAX, 12), None);
        assert_eq!(around(0, 1, 64), None);
        assert_eq!(around(0, 1, u32::MAX), None);
    }
}
