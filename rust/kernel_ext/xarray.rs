// SPDX-License-Identifier: GPL-2.0

//! Tables of objects by number.
//!
//! A [`Table`] gives numbers to objects and finds the object of a number, in softirq context too, without a lock.
//!
//! C header: `include/linux/xarray.h`.

use crate::{bindings, context::MaySleep, deferred_drop::DeferredDrop, gfp::Gfp, sync};
use core::{cell::UnsafeCell, ffi::c_void, marker::PhantomData, ops::RangeInclusive, ptr::NonNull};
use kernel::{
    prelude::*,
    sync::{rcu, Arc, ArcBorrow},
    types::{ForeignOwnable, Opaque},
};

/// An object for each of some numbers of a range.
///
/// The table owns a reference to each object. Numbers go round: one that was given back is not given out again soon.
///
/// # Invariants
///
/// Each entry of `xa` is reserved (reads as null), or is from `Arc::into_foreign` and owns that reference. An entry is
/// taken out only where, before the reference is handed on or dropped, all RCU readers that could have found it have left, or
/// where nobody else has the table.
#[pin_data(PinnedDrop)]
pub struct Table<T: Send + Sync + 'static> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    /// The number to try next; under the lock of `xa`.
    next: UnsafeCell<u32>,
    limit: bindings::xa_limit,
    _objects: PhantomData<Arc<T>>,
}

// SAFETY: The objects may be used and dropped on any thread; the C array has its own lock.
unsafe impl<T: Send + Sync> Send for Table<T> {}
// SAFETY: As above; `next` is used under the lock alone.
unsafe impl<T: Send + Sync> Sync for Table<T> {}

impl<T: Send + Sync + 'static> Table<T> {
    /// Returns an initialiser of an empty table for the numbers in `range`.
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

    /// Puts an entry (null: reserves) where there is room and returns the number.
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
        // 1: the numbers have gone round.
        if ret < 0 {
            return Err(Error::from_errno(ret));
        }
        Ok(index)
    }

    /// Puts an object into the table and returns its number. Readers find it from now on.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` when all numbers are taken.
    pub fn insert(&self, object: Arc<T>, flags: Gfp<'_>) -> Result<u32> {
        let entry = object.into_foreign();
        // INVARIANT: The entry owns the reference, if it gets into the table.
        self.allocate(entry, flags).inspect_err(|_| {
            // SAFETY: `entry` is from `into_foreign`, and did not get into the table.
            drop(unsafe { Arc::<T>::from_foreign(entry) })
        })
    }

    /// Puts an object into the table under a number of the caller's choice, which need not be in the range.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` when the number is taken.
    pub fn insert_at(&self, index: u32, object: Arc<T>, flags: Gfp<'_>) -> Result {
        let entry = object.into_foreign();
        // SAFETY: The array is valid.
        // INVARIANT: The entry owns the reference, if it gets into the table.
        let ret = unsafe {
            bindings::xa_insert_irqsave(self.xa.get(), index as usize, entry, flags.as_raw())
        };
        kernel::error::to_result(ret).inspect_err(|_| {
            // SAFETY: `entry` is from `into_foreign`, and did not get into the table.
            drop(unsafe { Arc::<T>::from_foreign(entry) })
        })
    }

    /// Takes a number for an object that is still to be made: publishing it cannot fail.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` when all numbers are taken.
    pub fn reserve(&self, flags: Gfp<'_>) -> Result<Reservation<'_, T>> {
        let index = self.allocate(core::ptr::null_mut(), flags)?;
        Ok(Reservation { table: self, index })
    }

    /// Finds the object of a number. Any context.
    ///
    /// The object stays alive as long as the guard.
    #[inline]
    pub fn get<'a>(&'a self, index: u32, _guard: &'a rcu::Guard) -> Option<ArcBorrow<'a, T>> {
        // SAFETY: The array is valid.
        let entry = unsafe { bindings::xa_load(self.xa.get(), index as usize) };
        let entry = NonNull::new(entry)?;
        // SAFETY: By the invariants of the table, the entry is from `into_foreign`, and its reference outlives the
        // guard's read-side critical section.
        Some(unsafe { Arc::<T>::borrow(entry.as_ptr().cast()) })
    }

    /// Finds the object of a number and takes a reference to it. Any context.
    #[inline]
    pub fn find(&self, index: u32) -> Option<Arc<T>> {
        let guard = rcu::read_lock();
        self.get(index, &guard).map(Into::into)
    }

    /// Takes an object out of the table and returns it when no reader borrows it from the table any more.
    pub fn remove(&self, index: u32, may_sleep: &MaySleep) -> Option<Arc<T>> {
        // SAFETY: The array is valid.
        let entry = unsafe { bindings::xa_erase_irqsave(self.xa.get(), index as usize) };
        let entry = NonNull::new(entry)?;
        sync::rcu::synchronize_expedited(may_sleep);
        // SAFETY: The entry is from `into_foreign`; it is out of the table, and all its readers have left.
        Some(unsafe { Arc::from_foreign(entry.as_ptr().cast()) })
    }

    /// Takes an object out of the table; its reference is dropped when no reader borrows it from the table any more, which this
    /// does not wait for. Says whether there was one.
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
        // SAFETY: The entry is from `into_foreign`, and out of the table. Readers that have found it borrow the reference, which
        // is dropped after they have left.
        let object = unsafe { Arc::from_foreign(entry.as_ptr().cast()) };
        DeferredDrop::push(place, object, may_sleep);
        true
    }

    /// Finds the object with the smallest number that is not below `from`, and takes a reference to it.
    ///
    /// For walking the table while it changes: objects that come or go meanwhile may be missed, or not.
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

    /// Walks all objects by rising number, see [`Table::find_from`].
    pub fn iter(&self) -> impl Iterator<Item = (u32, Arc<T>)> + '_ {
        let mut from = Some(0);
        core::iter::from_fn(move || {
            let (index, object) = self.find_from(from?)?;
            from = index.checked_add(1);
            Some((index, object))
        })
    }

    /// Says whether the table has neither objects nor reserved numbers.
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
            // SAFETY: The entry is from `into_foreign`, and nobody else has the table.
            drop(unsafe { Arc::<T>::from_foreign(entry.as_ptr().cast()) });
        }
        // SAFETY: The array is valid, and nobody uses it any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}

/// A number of a [`Table`] without an object. Dropping it gives the number back.
pub struct Reservation<'a, T: Send + Sync + 'static> {
    table: &'a Table<T>,
    index: u32,
}

impl<T: Send + Sync> Reservation<'_, T> {
    /// Returns the number.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Puts the object into the table: readers find it from now on. Any context.
    pub fn publish(self, object: Arc<T>) {
        let entry = object.into_foreign();
        // The reservation has its place in the array, so no memory is needed and nothing can fail.
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
