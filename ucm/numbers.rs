// SPDX-License-Identifier: GPL-2.0

//! Objects by the numbers that programs know them by, of all files: the lowest that is free.
//!
//! A number is reserved first, and its object is found once it is published. Whoever takes an object out of the table is the only one
//! that does, and destroys it; the number is free when the object is gone. Numbers are dense, so the table is an array; it is as long as
//! the highest number was.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::marker::PhantomData;

use kernel::{id_pool::IdPool, prelude::*, sync::Arc};

/// The objects of a type, and the numbers that are in use.
pub(crate) struct Numbers<T> {
    pool: IdPool,
    /// By number; it has a place for each that is in use.
    objects: KVVec<Option<Arc<T>>>,
}

impl<T> Numbers<T> {
    /// A table without objects.
    pub(crate) fn new() -> Self {
        Self {
            pool: IdPool::new(),
            objects: KVVec::new(),
        }
    }

    fn acquire(&mut self) -> Result<u32> {
        loop {
            if let Some(unused) = self.pool.find_unused_id(0) {
                let number = unused.as_usize();
                // Before the number is in use.
                while self.objects.len() <= number {
                    self.objects.push(None, GFP_KERNEL)?;
                }
                return Ok(unused.acquire() as u32);
            }
            let larger = self.pool.grow_request().ok_or(ENOMEM)?;
            let larger = larger.realloc(GFP_KERNEL)?;
            self.pool.grow(larger);
        }
    }

    /// The object with a number, if it is published and not taken.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.objects.get(number as usize)?.as_ref()
    }

    /// Takes the object with a number out. The number stays in use.
    pub(crate) fn take(&mut self, number: u32) -> Option<Arc<T>> {
        self.objects.get_mut(number as usize)?.take()
    }
}

/// A type whose objects have numbers.
pub(crate) trait Numbered: Send + Sync + Sized + 'static {
    /// Locks the only table of the type; `None` while the module is not loaded.
    fn with<R>(f: impl FnOnce(&mut Numbers<Self>) -> R) -> Option<R>;
}

/// A number in use. Dropping it frees the number.
pub(crate) struct Number<T: Numbered>(u32, PhantomData<fn() -> T>);

impl<T: Numbered> Number<T> {
    /// The number.
    pub(crate) fn get(&self) -> u32 {
        self.0
    }
}

impl<T: Numbered> Drop for Number<T> {
    fn drop(&mut self) {
        T::with(|table| table.pool.release_id(self.0 as usize));
    }
}

/// The place of an object that is not published yet, by its number.
pub(crate) struct Place<T>(u32, PhantomData<fn() -> T>);

impl<T: Numbered> Place<T> {
    /// Publishes the object, which has the number.
    pub(crate) fn publish(self, object: Arc<T>) {
        let replaced = T::with(|table| {
            let place = table.objects.get_mut(self.0 as usize)?;
            place.replace(object)
        });
        // There is none: the number is the object's.
        drop(replaced);
    }
}

/// Reserves the lowest free number.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn reserve<T: Numbered>() -> Result<(Number<T>, Place<T>)> {
    let number = T::with(Numbers::acquire).ok_or(ENODEV)??;
    Ok((Number(number, PhantomData), Place(number, PhantomData)))
}
