// SPDX-License-Identifier: GPL-2.0

//! The handles of a file's objects: `idr` of `struct ib_uverbs_file`.
//!
//! A new object gets the lowest free number from 0. An object is found under RCU; changes are made under the lock of the xarray,
//! in process context.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/linux/xarray.h`.

use core::{mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    error::to_result,
    prelude::*,
    sync::{aref::ARef, rcu},
};
use kernel_ext::entry::FromC;
use rdma::core::{command::UverbsFile, Uobject};
use rdma_bindings as bindings;

/// The handles of a file's objects.
///
/// # Invariants
///
/// Each entry is reserved (it reads as null), or an object to which it owns a reference. The memory of an object is freed after
/// a grace period.
#[derive(Clone, Copy)]
pub struct Handles<'a>(&'a UverbsFile);

/// A file that is being created, whose handles are not initialised.
///
/// # Invariants
///
/// Its handles are not used yet.
pub struct NewFile<'a>(&'a UverbsFile);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NewFile<'_> {
    type Raw = *mut bindings::ib_uverbs_file;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the function that takes this argument is the first one that is called for a file.
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

impl NewFile<'_> {
    /// Initialises the handles: all are free.
    pub fn init(self) {
        // SAFETY: By the type invariants the array is not used yet.
        unsafe {
            bindings::xa_init_flags(&raw mut (*self.0.as_raw()).idr, bindings::XA_FLAGS_ALLOC)
        };
    }
}

impl<'a> Handles<'a> {
    /// The handles of a file.
    #[inline]
    pub fn of(file: &'a UverbsFile) -> Self {
        Self(file)
    }

    fn array(self) -> *mut bindings::xarray {
        // SAFETY: The array is valid as long as the file.
        unsafe { &raw mut (*self.0.as_raw()).idr }
    }

    /// Reserves a handle. A lookup finds nothing there.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EBUSY` if there is none.
    pub fn reserve(self) -> Result<Number<'a>> {
        let mut number = 0;
        // SAFETY: The array was initialised.
        to_result(unsafe {
            bindings::xa_alloc_reserved(self.array(), &mut number, bindings::GFP_KERNEL)
        })?;
        Ok(Number {
            handles: self,
            number,
        })
    }

    /// Finds the object of a handle.
    pub fn find(self, number: usize) -> Option<ARef<Uobject>> {
        let _guard = rcu::read_lock();
        // SAFETY: The array was initialised.
        let object = unsafe { bindings::xa_load(self.array(), number) };
        let object = NonNull::new(object.cast::<bindings::ib_uobject>())?;
        // SAFETY: The memory is valid as long as the guard. If the count is not 0, this function takes a reference.
        unsafe {
            bindings::kref_get_unless_zero(&raw mut (*object.as_ptr()).ref_)
                .then(|| ARef::from_raw(object.cast()))
        }
    }

    /// Frees a handle, and returns the reference of its object, if there is one.
    pub fn free(self, number: u32) -> Option<ARef<Uobject>> {
        // SAFETY: The array was initialised.
        let entry = unsafe { bindings::xa_erase(self.array(), number as usize) };
        let object = NonNull::new(entry.cast::<Uobject>())?;
        // SAFETY: By the type invariants the entry owned a reference.
        Some(unsafe { ARef::from_raw(object) })
    }

    /// Removes an object, and leaves its handle reserved.
    pub fn withdraw(self, object: &Uobject) -> Option<ARef<Uobject>> {
        let entry = object.as_raw();
        // SAFETY: The array was initialised.
        let there = unsafe {
            let number = object.id() as usize;
            bindings::xa_reserve_again(self.array(), number, entry.cast(), bindings::GFP_KERNEL)
        };
        let entry = NonNull::new(entry.cast::<Uobject>())?;
        // SAFETY: By the type invariants the entry owned a reference.
        there.then(|| unsafe { ARef::from_raw(entry) })
    }

    /// Stores an object at its handle, which is reserved: a lookup finds it from now on. An object of another file is dropped.
    pub fn publish(self, object: ARef<Uobject>) {
        if kernel::warn_on!(!core::ptr::eq(object.file(), self.0)) {
            return;
        }
        let number = object.id() as usize;
        let entry = ManuallyDrop::new(object).as_raw().cast();
        // SAFETY: The array was initialised, and is valid as long as the file.
        // INVARIANT: The entry owns the reference. The store into a reserved entry cannot fail; if it fails elsewhere, the object
        // leaks.
        let old = unsafe { bindings::xa_store(self.array(), number, entry, bindings::GFP_KERNEL) };
        kernel::warn_on!(!old.is_null());
    }

    /// Destroys the array when the file is freed, and drops the references that are left in it.
    ///
    /// # Safety
    ///
    /// The file's handles are not used after this.
    pub unsafe fn destroy(self) {
        let mut number = 0;
        loop {
            // SAFETY: The array was initialised.
            let entry = unsafe {
                bindings::xa_find(self.array(), &mut number, usize::MAX, bindings::XA_PRESENT)
            };
            if entry.is_null() {
                break;
            }
            let Some(object) = self.free(number as u32) else {
                break;
            };
            kernel::warn_on!(!object.object().is_null());
        }
        // SAFETY: By the safety requirements.
        unsafe { bindings::xa_destroy(self.array()) };
    }
}

/// A reserved handle. Dropping it frees the handle.
pub struct Number<'a> {
    handles: Handles<'a>,
    number: u32,
}

impl Number<'_> {
    /// Leaves it reserved, for [`Handles::publish`] or [`Handles::free`].
    pub fn keep(self) -> u32 {
        ManuallyDrop::new(self).number
    }

    /// The file of the handle.
    pub(crate) fn file(&self) -> &UverbsFile {
        self.handles.0
    }
}

impl Drop for Number<'_> {
    fn drop(&mut self) {
        drop(self.handles.free(self.number));
    }
}
