// SPDX-License-Identifier: GPL-2.0

//! Hardware counters: `struct rdma_hw_stats`, its memory and its lock.
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
    sync::aref::ARef,
};
use kernel_ext::{
    cmutex::{CMutex, CMutexGuard},
    entry::FromC,
    sysfs::Name,
};
use rdma_bindings::{self as bindings, rdma_hw_stats, rdma_stat_desc};

use super::{Device, DeviceMemory};
use crate::MaySleep;

/// Hardware counters with their descriptions and values.
///
/// # Invariants
///
/// The structure is from [`HwCounters::alloc`], and `self` owns it. Its values are accessed under its lock. Its descriptions are
/// valid as long.
#[repr(transparent)]
pub struct HwCounters(NonNull<rdma_hw_stats>);

// SAFETY: Members that change are protected by the lock, or accessed by single loads.
unsafe impl Send for HwCounters {}
// SAFETY: Members that change are protected by the lock, or accessed by single loads.
unsafe impl Sync for HwCounters {}

/// The layouts of the counters, and of the bitmap of disabled ones.
fn layouts(count: usize) -> Option<(core::alloc::Layout, core::alloc::Layout)> {
    let size = count.checked_mul(size_of::<u64>())?;
    let size = size.checked_add(size_of::<rdma_hw_stats>())?;
    let all = core::alloc::Layout::from_size_align(size, align_of::<rdma_hw_stats>()).ok()?;
    let words = count.div_ceil(usize::BITS as usize).max(1);
    Some((all, core::alloc::Layout::array::<usize>(words).ok()?))
}

/// The descriptions of counters as an argument of C, which may be null. They are valid as long as the counters.
pub struct StatDescs<'a>(*const rdma_stat_desc, PhantomData<&'a rdma_stat_desc>);

/// The number of [`StatDescs`], which C passes together with them. A value does not outlive the call, and no exported function
/// takes two of them.
pub struct StatCount<'a>(i32, PhantomData<&'a rdma_stat_desc>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for StatDescs<'_> {
    type Raw = *const rdma_stat_desc;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the `int` of the header.
unsafe impl FromC for StatCount<'_> {
    type Raw = i32;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

impl HwCounters {
    /// Allocates counters with the value 0. Values are valid for `lifespan` milliseconds.
    ///
    /// `None` if memory is short.
    pub fn alloc<'a>(
        StatDescs(descs, _): StatDescs<'a>,
        StatCount(count, _): StatCount<'a>,
        lifespan: usize,
    ) -> Option<Self> {
        let (all, disabled) = layouts(usize::try_from(count).ok()?)?;
        let flags = GFP_KERNEL | __GFP_ZERO;
        let raw = Kmalloc::alloc(all, flags, NumaNode::NO_NODE).ok()?;
        let raw = raw.cast::<rdma_hw_stats>();
        // INVARIANT: The structure was just allocated, and zeros are a valid value. By the header the descriptions are valid as
        // long.
        let this = Self(raw);
        let disabled = Kmalloc::alloc(disabled, flags, NumaNode::NO_NODE).ok()?;
        // SAFETY: `this` owns the structure.
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
    /// The counters are from `rdma_alloc_hw_stats_struct`, and the caller gives them up. Their descriptions are valid as long.
    pub(crate) unsafe fn from_raw(raw: NonNull<rdma_hw_stats>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw)
    }

    /// Hands the counters over to C.
    pub fn into_raw(self) -> *mut rdma_hw_stats {
        let raw = self.0.as_ptr();
        core::mem::forget(self);
        raw
    }

    /// The number of counters.
    pub fn count(&self) -> i32 {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { (*self.0.as_ptr()).num_counters }
    }

    /// The description of a counter; `None` for an unknown index.
    fn desc(&self, nth: u32) -> Option<&rdma_stat_desc> {
        // SAFETY: By the type invariants; the field is constant.
        let descs = unsafe { (*self.0.as_ptr()).descs };
        if descs.is_null() || i64::from(nth) >= i64::from(self.count()) {
            return None;
        }
        // SAFETY: The index was checked, and there is a description for each counter.
        Some(unsafe { &*descs.add(nth as usize) })
    }

    /// The name of a counter; `None` for an unknown index.
    pub fn name(&self, nth: u32) -> Option<&CStr> {
        let desc = self.desc(nth)?;
        // SAFETY: By the type invariants the description is valid, and its name is a string.
        Some(unsafe { CStr::from_char_ptr(desc.name) })
    }

    /// The indices of all counters with descriptions.
    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        let count = if self.is_named() { self.count() } else { 0 };
        0..u32::try_from(count).unwrap_or(0)
    }

    /// Whether a counter can be enabled and disabled; false for an unknown index.
    pub fn is_optional(&self, nth: u32) -> bool {
        let desc = self.desc(nth);
        desc.is_some_and(|desc| desc.flags & bindings::IB_STAT_FLAG_OPTIONAL != 0)
    }

    /// The word and the bit that disable a counter; `None` for an unknown index.
    fn switch(&self, nth: u32) -> Option<(&AtomicUsize, usize)> {
        let bits = usize::BITS;
        self.desc(nth)?;
        // SAFETY: By the type invariants the bitmap is valid; it has a bit for each counter, and drivers change its words
        // atomically.
        let word = unsafe {
            let words = (*self.0.as_ptr()).is_disabled.cast::<usize>();
            AtomicUsize::from_ptr(words.add((nth / bits) as usize))
        };
        Some((word, 1 << (nth % bits)))
    }

    /// Whether a counter is enabled.
    pub fn is_enabled(&self, nth: u32) -> bool {
        let off = self.switch(nth);
        off.is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit == 0)
    }

    /// The value of a counter, without the lock; 0 for an unknown index.
    pub fn peek(&self, nth: u32) -> u64 {
        if self.desc(nth).is_none() {
            return 0;
        }
        // SAFETY: By the type invariants; there is a value for each counter, and a concurrent writer uses a single store.
        unsafe {
            let values = (&raw const (*self.0.as_ptr()).value).cast::<u64>();
            values.add(nth as usize).read_volatile()
        }
    }

    /// Whether the counters have descriptions.
    pub fn is_named(&self) -> bool {
        // SAFETY: By the type invariants; the field is constant.
        unsafe { !(*self.0.as_ptr()).descs.is_null() }
    }

    /// The indices and names of the counters that are not optional.
    pub fn names(&self) -> impl Iterator<Item = (u32, Name)> + '_ {
        // SAFETY: By the type invariants; the field is constant.
        let descs = unsafe { (*self.0.as_ptr()).descs };
        let count = if descs.is_null() { 0 } else { self.count() };
        (0..u32::try_from(count).unwrap_or(0)).filter_map(move |nth| {
            // SAFETY: There is a description for each counter, and its name is valid as long as `self`.
            unsafe {
                let desc = &*descs.add(nth as usize);
                let always = desc.flags & bindings::IB_STAT_FLAG_OPTIONAL == 0;
                always.then(|| (nth, Name::borrowed(desc.name)))
            }
        })
    }

    /// Locks the counters, for access to their values.
    pub fn lock(&self, sleep: &MaySleep) -> HwCountersGuard<'_> {
        // SAFETY: The mutex was initialised with the counters, and is valid as long.
        let mutex = unsafe { CMutex::from_raw(&raw mut (*self.0.as_ptr()).lock) };
        // INVARIANT: The mutex was just locked.
        HwCountersGuard {
            raw: self.0,
            _guard: mutex.lock(sleep),
        }
    }

    /// Enables or disables a counter, under the lock.
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
        // SAFETY: By the type invariants both are from `kmalloc`, or null, and `self` owns them.
        unsafe {
            bindings::kfree((*self.0.as_ptr()).is_disabled.cast());
            bindings::kfree(self.0.as_ptr().cast());
        }
    }
}

/// The hardware counters of a device, or of one of its ports.
///
/// # Invariants
///
/// The driver of `device` has allocated the counters for `port`, or with `None` for the device.
pub struct DeviceCounters {
    counters: HwCounters,
    device: ARef<DeviceMemory>,
    port: Option<u32>,
}

impl DeviceCounters {
    /// The counters that a driver has allocated.
    ///
    /// # Safety
    ///
    /// The driver of `device` has allocated the counters for `port`, or with `None` for the device.
    pub(crate) unsafe fn new(counters: HwCounters, device: &Device, port: Option<u32>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            counters,
            device: device.hold(),
            port,
        }
    }

    /// Whether they are counters of this device or of one of its ports.
    #[inline]
    pub fn is_of(&self, device: &Device) -> bool {
        core::ptr::eq(&**device, &*self.device)
    }

    /// The port; `None` for the counters of the device.
    pub fn port(&self) -> Option<u32> {
        self.port
    }
}

impl core::ops::Deref for DeviceCounters {
    type Target = HwCounters;

    #[inline]
    fn deref(&self) -> &HwCounters {
        &self.counters
    }
}

/// An argument by which C gives up counters, or null.
pub struct CountersArg(pub Option<HwCounters>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for CountersArg {
    type Raw = *mut rdma_hw_stats;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the counters are valid, and by the header the function takes them over.
        Self(NonNull::new(raw).map(|raw| unsafe { HwCounters::from_raw(raw) }))
    }
}

/// Counters whose lock is held.
///
/// # Invariants
///
/// The guard holds the lock of the counters.
pub struct HwCountersGuard<'a> {
    raw: NonNull<rdma_hw_stats>,
    _guard: CMutexGuard<'a>,
}

impl HwCountersGuard<'_> {
    /// The structure, for a driver to fill in.
    pub(crate) fn as_raw(&mut self) -> *mut rdma_hw_stats {
        self.raw.as_ptr()
    }

    /// Whether these counters are locked.
    pub(crate) fn is_of(&self, counters: &HwCounters) -> bool {
        self.raw == counters.0
    }

    /// Whether the values are younger than their lifespan.
    pub fn is_fresh(&self) -> bool {
        // SAFETY: By the type invariants the lock is held.
        unsafe { bindings::rdma_hw_stats_fresh(self.raw.as_ptr()) }
    }

    /// Sets the time of the values to the current time.
    pub fn touch(&mut self) {
        // SAFETY: By the type invariants the lock is held.
        unsafe { bindings::rdma_hw_stats_touch(self.raw.as_ptr()) };
    }

    /// The value of a counter; 0 for an unknown index.
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

    /// The lifespan of values in milliseconds.
    pub fn lifespan(&self) -> u32 {
        // SAFETY: By the type invariants the lock is held.
        unsafe { bindings::rdma_hw_stats_lifespan(self.raw.as_ptr()) }
    }

    /// Sets the lifespan of values in milliseconds.
    pub fn set_lifespan(&mut self, milliseconds: u32) {
        // SAFETY: By the type invariants the lock is held.
        unsafe {
            (*self.raw.as_ptr()).lifespan = kernel::time::msecs_to_jiffies(milliseconds);
        }
    }
}
