// SPDX-License-Identifier: GPL-2.0

//! Tables of objects by index (XArray).
//!
//! A [`Table`] assigns indices to objects and finds the object with an index, also in softirq context, without a lock.
//!
//! C header: `include/linux/xarray.h`.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `xa_lock` of a `Table` | indices and objects; readers are under RCU, without a lock | any, interrupts off | nothing |

use crate::{bindings, context::MaySleep, deferred_drop::DeferredDrop, gfp::Gfp, sync};
use core::{cell::UnsafeCell, ffi::c_void, marker::PhantomData, ops::RangeInclusive, ptr::NonNull};
use kernel::{
    prelude::*,
    sync::{rcu, Arc, ArcBorrow},
    types::{ForeignOwnable, Opaque},
};

/// Objects with indices in a range.
///
/// The table owns a reference to each object. Indices are assigned cyclically, so that a freed one is not reused soon.
///
/// # Invariants
///
/// Each entry of `xa` is reserved (reads as null), or is from `Arc::into_foreign` and owns that reference. After an
/// entry is removed, its reference is passed on or dropped only when all RCU readers that could have found it have left, or
/// when there are no other users of the table.
#[pin_data(PinnedDrop)]
pub struct Table<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    /// The index to try next; under the lock of `xa`.
    next: UnsafeCell<u32>,
    limit: bindings::xa_limit,
    _objects: PhantomData<Arc<T>>,
}

// SAFETY: The objects may be used and dropped on any thread; the C array has its own lock.
unsafe impl<T: Send + Sync> Send for Table<T> {}
// SAFETY: The objects may be used and dropped on any thread; the C array has its own lock; `next` is only used under that lock.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T: Send + Sync + 'static> Table<T> {
    /// Returns an initialiser of an empty table for the indices in `range`.
    pub fn new(range: RangeInclusive<u32>) -> impl PinInit<Self> {
        let (min, max) = range.into_inner();
        pin_init!(Self {
            // SAFETY: `xa` is valid for writes; the value is pinned from here on.
            xa <- Opaque::ffi_init(|xa| unsafe { bindings::xa_init_alloc_irq(xa) }),
            next: UnsafeCell::new(min),
            limit: bindings::xa_limit { max, min },
            _objects: PhantomData,
        })
    }

    /// Stores an entry (null: reserves) at an unused index and returns the index.
    fn allocate(&self, entry: *mut c_void, flags: Gfp<'_>) -> Result<u32> {
        let mut index = 0;
        // SAFETY: The array is valid, and `next` is used under its lock.
        let ret = unsafe {
            bindings::xa_alloc_cyclic_irqsave(
                self.xa.get(),
                &mut index,
                entry,
                self.limit,
                self.next.get(),
                flags.as_raw(),
            )
        };
        // 1: the indices have wrapped.
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        Ok(index)
    }

    /// Adds an object and returns its index. Readers find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` if all indices are in use.
    pub fn insert(&self, object: Arc<T>, flags: Gfp<'_>) -> Result<u32> {
        let entry = object.into_foreign();
        // INVARIANT: The entry owns the reference, if it is stored in the table.
        self.allocate(entry, flags).inspect_err(|_| {
            // SAFETY: `entry` is from `into_foreign`, and was not stored in the table.
            drop(unsafe { Arc::<T>::from_foreign(entry) })
        })
    }

    /// Adds an object with an index chosen by the caller, which need not be in the range.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` if the index is in use.
    pub fn insert_at(&self, index: u32, object: Arc<T>, flags: Gfp<'_>) -> Result {
        let entry = object.into_foreign();
        // SAFETY: The array is valid.
        // INVARIANT: The entry owns the reference, if it is stored in the table.
        let ret = unsafe {
            bindings::xa_insert_irqsave(self.xa.get(), index as usize, entry, flags.as_raw())
        };
        kernel::error::to_result(ret).inspect_err(|_| {
            // SAFETY: `entry` is from `into_foreign`, and was not stored in the table.
            drop(unsafe { Arc::<T>::from_foreign(entry) })
        })
    }

    /// Reserves an index for an object, which can then be published without failure.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` if all indices are in use.
    pub fn reserve(&self, flags: Gfp<'_>) -> Result<Reservation<'_, T>> {
        let index = self.allocate(core::ptr::null_mut(), flags)?;
        Ok(Reservation { table: self, index })
    }

    /// Finds the object with an index. Any context.
    ///
    /// The object is valid as long as the guard.
    #[inline]
    pub fn get<'a>(&'a self, index: u32, _guard: &'a rcu::Guard) -> Option<ArcBorrow<'a, T>> {
        // SAFETY: The array is valid.
        let entry = unsafe { bindings::xa_load(self.xa.get(), index as usize) };
        let entry = NonNull::new(entry)?;
        // SAFETY: By the invariants of the table, the entry is from `into_foreign`, and its reference outlives the
        // guard's read-side critical section.
        Some(unsafe { Arc::<T>::borrow(entry.as_ptr().cast()) })
    }

    /// As [`Self::get`], as a plain reference.
    #[inline]
    pub fn peek<'a>(&'a self, index: u32, guard: &'a rcu::Guard) -> Option<&'a T> {
        let object = self.get(index, guard)?;
        // SAFETY: An `ArcBorrow` keeps the object valid and shared for its whole lifetime, also when it is a copy.
        Some(unsafe { &*core::ptr::from_ref::<T>(&object) })
    }

    /// Finds the object with an index and takes a reference to it. Any context.
    #[inline]
    pub fn find(&self, index: u32) -> Option<Arc<T>> {
        let guard = rcu::read_lock();
        self.get(index, &guard).map(Into::into)
    }

    /// Removes an object and returns it after all readers that may borrow it.
    pub fn remove(&self, index: u32, may_sleep: &MaySleep) -> Option<Arc<T>> {
        // SAFETY: The array is valid.
        let entry = unsafe { bindings::xa_erase_irqsave(self.xa.get(), index as usize) };
        let entry = NonNull::new(entry)?;
        sync::rcu::synchronize_expedited(may_sleep);
        // SAFETY: The entry is from `into_foreign`; it was removed from the table, and all its readers have left.
        Some(unsafe { Arc::from_foreign(entry.as_ptr().cast()) })
    }

    /// Removes an object; its reference is dropped after all readers that may borrow it, without waiting for them.
    /// Returns whether there was one.
    pub fn remove_later(
        &self,
        index: u32,
        place: &Arc<DeferredDrop<T>>,
        may_sleep: &MaySleep,
    ) -> bool
    where
        T: 'static,
    {
        // SAFETY: The array is valid.
        let entry = unsafe { bindings::xa_erase_irqsave(self.xa.get(), index as usize) };
        let Some(entry) = NonNull::new(entry) else {
            return false;
        };
        // SAFETY: The entry is from `into_foreign`, and was removed from the table. Readers that have found it borrow the
        // reference, which is dropped after they have left.
        let object = unsafe { Arc::from_foreign(entry.as_ptr().cast()) };
        DeferredDrop::push(place, object, may_sleep);
        true
    }

    /// Finds the object with the smallest index from `from` on, and takes a reference to it.
    ///
    /// For iteration while the table changes: objects that are added or removed meanwhile may be missed.
    pub fn find_from(&self, from: u32) -> Option<(u32, Arc<T>)> {
        let mut index = from as usize;
        let _guard = rcu::read_lock();
        // SAFETY: The array is valid.
        let entry = unsafe {
            bindings::xa_find(
                self.xa.get(),
                &mut index,
                u32::MAX as usize,
                bindings::XA_PRESENT,
            )
        };
        let entry = NonNull::new(entry)?;
        // SAFETY: The entry is from `into_foreign`, and its reference outlives the read-side critical section.
        let object = unsafe { Arc::<T>::borrow(entry.as_ptr().cast()) };
        Some((index as u32, object.into()))
    }

    /// Iterates over all objects in ascending order of their indices, see [`Table::find_from`].
    pub fn iter(&self) -> impl Iterator<Item = (u32, Arc<T>)> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (index, object) = self.find_from(from?)?;
            from = index.checked_add(1);
            Some((index, object))
        })
    }

    /// Whether the table has neither objects nor reserved indices.
    pub fn is_empty(&self) -> bool {
        // SAFETY: The array is valid; the word is read once.
        unsafe {
            (&raw const (*self.xa.get()).xa_head)
                .read_volatile()
                .is_null()
        }
    }
}

#[pinned_drop]
impl<T: Send + Sync> PinnedDrop for Table<T> {
    fn drop(self: Pin<&mut Self>) {
        let mut from = 0;
        loop {
            // SAFETY: The array is valid.
            let entry = unsafe {
                bindings::xa_find(self.xa.get(), &mut from, usize::MAX, bindings::XA_PRESENT)
            };
            let Some(entry) = NonNull::new(entry) else {
                break;
            };
            // SAFETY: The array is valid.
            unsafe { bindings::xa_erase_irqsave(self.xa.get(), from) };
            // SAFETY: The entry is from `into_foreign`, and `&mut self` is exclusive.
            drop(unsafe { Arc::<T>::from_foreign(entry.as_ptr().cast()) });
        }
        // SAFETY: The array is valid, and `&mut self` is exclusive.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// A reserved index of a [`Table`]. Dropping it frees the index.
pub struct Reservation<'a, T: Send + Sync + 'static> {
    table: &'a Table<T>,
    index: u32,
}

impl<T: Send + Sync> Reservation<'_, T> {
    /// Returns the index.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Adds the object: readers find it from now on. Any context.
    pub fn publish(self, object: Arc<T>) {
        let entry = object.into_foreign();
        // The entry is allocated already, so this cannot fail.
        // SAFETY: The array is valid.
        // INVARIANT: The entry owns the reference.
        unsafe { bindings::xa_store_irqsave(self.table.xa.get(), self.index as usize, entry, 0) };
        core::mem::forget(self);
    }
}

impl<T: Send + Sync> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The array is valid; the entry is reserved, so that there is no object to drop.
        unsafe { bindings::xa_erase_irqsave(self.table.xa.get(), self.index as usize) };
    }
}
