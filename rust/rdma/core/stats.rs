// SPDX-License-Identifier: GPL-2.0

//! Counters of the hardware: `struct rdma_hw_stats`, its memory and its lock.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator, NumaNode},
    prelude::*,
};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    entry::FromC,
    sysfs::Name,
};
use rdma_bindings::{self as bindings, rdma_hw_stats, rdma_stat_desc};

use crate::MaySleep;

/// Counters, their names and their values.
///
/// # Invariants
///
/// The structure is there, from [`HwCounters::alloc`], and ours alone but for those who hold its lock. Its names stay as long.
#[repr(transparent)]
pub struct HwCounters(NonNull<rdma_hw_stats>);

// SAFETY: What changes is guarded by the lock.
unsafe impl Send for HwCounters {}
// SAFETY: As above.
unsafe impl Sync for HwCounters {}

/// The layout of counters, and of the bits that say which are off.
fn layouts(count: usize) -> Option<(core::alloc::Layout, core::alloc::Layout)> {
    let size = count.checked_mul(size_of::<u64>())?;
    let size = size.checked_add(size_of::<rdma_hw_stats>())?;
    let all = core::alloc::Layout::from_size_align(size, align_of::<rdma_hw_stats>()).ok()?;
    let words = count.div_ceil(usize::BITS as usize).max(1);
    Some((all, core::alloc::Layout::array::<usize>(words).ok()?))
}

/// The names of counters, as C passes them with their number; or null. They stay as long as counters that have them.
pub struct StatDescs<'a>(*const rdma_stat_desc, PhantomData<&'a rdma_stat_desc>);

/// How many counters there are, as C passes it with [`StatDescs`]. A value lives no longer than the call, and no function has two.
pub struct StatCount<'a>(i32, PhantomData<&'a rdma_stat_desc>);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for StatDescs<'_> {
    type Raw = *const rdma_stat_desc;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: The header has `int`.
unsafe impl FromC for StatCount<'_> {
    type Raw = i32;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

impl HwCounters {
    /// Allocates counters that are 0. Their values are good for `lifespan` milliseconds.
    ///
    /// `None` where there is no memory.
    pub fn alloc<'a>(
        StatDescs(descs, _): StatDescs<'a>,
        StatCount(count, _): StatCount<'a>,
        lifespan: usize,
    ) -> Option<Self> {
        let (all, disabled) = layouts(usize::try_from(count).ok()?)?;
        let flags = GFP_KERNEL | __GFP_ZERO;
        let raw = Kmalloc::alloc(all, flags, NumaNode::NO_NODE).ok()?;
        let raw = raw.cast::<rdma_hw_stats>();
        // INVARIANT: It was just allocated; zeros are a valid value. By the header the names stay.
        let this = Self(raw);
        let disabled = Kmalloc::alloc(disabled, flags, NumaNode::NO_NODE).ok()?;
        // SAFETY: The structure is ours.
        unsafe {
            (*raw.as_ptr()).is_disabled = disabled.as_ptr().cast();
            (*raw.as_ptr()).descs = descs;
            (*raw.as_ptr()).num_counters = count;
            let lifespan = u32::try_from(lifespan).unwrap_or(u32::MAX);
            (*raw.as_ptr()).lifespan = kernel::time::msecs_to_jiffies(lifespan);
            bindings::rdma_hw_stats_init_lock(raw.as_ptr());
        }
        Some(this)
    }

    /// Takes over counters that a driver has allocated.
    ///
    /// # Safety
    ///
    /// They are from `rdma_alloc_hw_stats_struct`, and the caller gives them up. Their names stay as long.
    pub(crate) unsafe fn from_raw(raw: NonNull<rdma_hw_stats>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands them over to C code.
    pub fn into_raw(self) -> *mut rdma_hw_stats {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// How many counters there are.
    pub fn count(&self) -> i32 {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { (*self.0.as_ptr()).num_counters }
    }

    /// The description of a counter. `None` for one that there is not.
    fn desc(&self, nth: u32) -> Option<&rdma_stat_desc> {
        // SAFETY: By the type invariants; the field is constant.
        let descs = unsafe { (*self.0.as_ptr()).descs };
        if descs.is_null() || i64::from(nth) >= i64::from(self.count()) {
            return None;
        }
        // SAFETY: There is a description for each counter.
        Some(unsafe { &*descs.add(nth as usize) })
    }

    /// The name of a counter. `None` for one that there is not.
    pub fn name(&self, nth: u32) -> Option<&CStr> {
        let desc = self.desc(nth)?;
        // SAFETY: By the type invariants.
        Some(unsafe { CStr::from_char_ptr(desc.name) })
    }

    /// The numbers of all counters that have names.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let count = if self.is_named() { self.count() } else { 0 };
        0..u32::try_from(count).unwrap_or(0)
    }

    /// Whether a counter can be switched on and off. One that there is not cannot.
    pub fn is_optional(&self, nth: u32) -> bool {
        let desc = self.desc(nth);
        desc.is_some_and(|desc| desc.flags & bindings::IB_STAT_FLAG_OPTIONAL != 0)
    }

    /// The word, and the bit in it, that says whether a counter is off. `None` for one that there is not.
    fn switch(&self, nth: u32) -> Option<(&AtomicUsize, usize)> {
        let bits = usize::BITS;
        self.desc(nth)?;
        // SAFETY: By the type invariants; there is a bit for each counter, and drivers change words atomically.
        let word = unsafe {
            let words = (*self.0.as_ptr()).is_disabled.cast::<usize>();
            AtomicUsize::from_ptr(words.add((nth / bits) as usize))
        };
        Some((word, 1 << (nth % bits)))
    }

    /// Whether a counter is on.
    pub fn is_enabled(&self, nth: u32) -> bool {
        let off = self.switch(nth);
        off.is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit == 0)
    }

    /// The value of a counter, as it is at this moment; 0 for one that there is not.
    pub fn peek(&self, nth: u32) -> u64 {
        if self.desc(nth).is_none() {
            return 0;
        }
        // SAFETY: By the type invariants; there is a value for each counter. Another CPU that writes it writes it whole.
        unsafe {
            let values = (&raw const (*self.0.as_ptr()).value).cast::<u64>();
            values.add(nth as usize).read_volatile()
        }
    }

    /// Whether the counters have names.
    pub fn is_named(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { !(*self.0.as_ptr()).descs.is_null() }
    }

    /// The names of the counters that are always on, and which counters these are.
    pub fn names(&self) -> impl Iterator<Item = (u32, Name)> + '_ {
        // SAFETY: By the type invariants; the field is constant.
        let descs = unsafe { (*self.0.as_ptr()).descs };
        let count = if descs.is_null() { 0 } else { self.count() };
        (0..u32::try_from(count).unwrap_or(0)).filter_map(move |nth| {
            // SAFETY: There is a description for each counter, and its name stays as long as `self`.
            unsafe {
                let desc = &*descs.add(nth as usize);
                let always = desc.flags & bindings::IB_STAT_FLAG_OPTIONAL == 0;
                always.then(|| (nth, Name::borrowed(desc.name)))
            }
        })
    }

    /// Locks them, to look at the values.
    pub fn lock(&self, sleep: &MaySleep) -> HwCountersGuard<'_> {
        // SAFETY: The mutex was initialised with the counters, and stays as long.
        let mutex = unsafe { CMutex::from_raw(&raw mut (*self.0.as_ptr()).lock) };
        // INVARIANT: It was just locked.
        HwCountersGuard {
            raw: self.0,
            _guard: mutex.lock(sleep),
        }
    }

    /// Says whether a counter is on. For who holds the lock.
    pub fn set_enabled(&self, nth: u32, on: bool, _locked: &HwCountersGuard<'_>) {
        if let Some((word, bit)) = self.switch(nth) {
            if on {
                word.fetch_and(!bit, Ordering::Relaxed);
            } else {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for HwCounters {
    fn drop(&mut self) {
        // SAFETY: By the type invariants both are from `kmalloc`, or null, and nobody uses them any more.
        unsafe {
            bindings::kfree((*self.0.as_ptr()).is_disabled.cast());
            bindings::kfree(self.0.as_ptr().cast());
        }
    }
}

/// Counters that a caller gives up; none where it had none.
pub struct GivenCounters(pub Option<HwCounters>);

// SAFETY: The caller hands its counters over.
unsafe impl FromC for GivenCounters {
    type Raw = *mut rdma_hw_stats;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements, and what the header says.
        Self(NonNull::new(raw).map(|raw| unsafe { HwCounters::from_raw(raw) }))
    }
}

/// Counters whose lock is held.
///
/// # Invariants
///
/// The guard is of the counters' lock.
pub struct HwCountersGuard<'a> {
    raw: NonNull<rdma_hw_stats>,
    _guard: CMutexGuard<'a>,
}

impl HwCountersGuard<'_> {
    /// The structure, for a driver to fill in.
    pub(crate) fn as_raw(&mut self) -> *mut rdma_hw_stats {
        self.raw.as_ptr()
    }

    /// Whether the values are young enough.
    pub fn is_fresh(&self) -> bool {
        // SAFETY: The lock is held.
        unsafe { bindings::rdma_hw_stats_fresh(self.raw.as_ptr()) }
    }

    /// All values are from now.
    pub fn touch(&mut self) {
        // SAFETY: The lock is held.
        unsafe { bindings::rdma_hw_stats_touch(self.raw.as_ptr()) };
    }

    /// The value of a counter; 0 for one that there is not.
    pub fn value(&self, nth: u32) -> u64 {
        // SAFETY: The lock is held; there is a value for each counter.
        unsafe {
            let raw = self.raw.as_ptr();
            if i64::from(nth) >= i64::from((*raw).num_counters) {
                return 0;
            }
            let values = (&raw const (*raw).value).cast::<u64>();
            values.add(nth as usize).read()
        }
    }

    /// How long values are good, in milliseconds.
    pub fn lifespan(&self) -> u32 {
        // SAFETY: The lock is held.
        unsafe { bindings::rdma_hw_stats_lifespan(self.raw.as_ptr()) }
    }

    /// Says how long values are good, in milliseconds.
    pub fn set_lifespan(&mut self, milliseconds: u32) {
        // SAFETY: The lock is held.
        unsafe {
            (*self.raw.as_ptr()).lifespan = kernel::time::msecs_to_jiffies(milliseconds);
        }
    }
}
