// SPDX-License-Identifier: GPL-2.0

//! Objects with a file descriptor (`uverbs_fd_class`).
//!
//! The `object` of such an object is a `struct file`, whose `private_data` is the object once that is committed.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/linux/file.h`.

use core::{
    mem::ManuallyDrop,
    ptr::NonNull,
    sync::atomic::{AtomicPtr, Ordering},
};

use kernel::{error::from_err_ptr, ffi::c_void, prelude::*, sync::aref::ARef};
use rdma::core::{uobject::ApiObject, Uobject};
use rdma_bindings as bindings;

/// A type of objects with a file descriptor: `struct uverbs_obj_fd_type`.
#[derive(Clone, Copy)]
pub struct FdType<'a>(&'a bindings::uverbs_obj_fd_type);

impl<'a> FdType<'a> {
    /// The type of an object class; `None` if its objects have handles, or if the driver was removed.
    pub fn of(kind: &'a ApiObject) -> Option<Self> {
        if kind.type_class() != &raw const bindings::uverbs_fd_class {
            return None;
        }
        // SAFETY: A description of the class is the first member of this structure, and constant.
        Some(Self(unsafe {
            kind.type_attrs()
                .cast::<bindings::uverbs_obj_fd_type>()
                .as_ref()
        }?))
    }

    fn has_own_files(self) -> bool {
        !self.0.fops.is_null()
    }

    /// Whether the `release` of its files is `uverbs_uobject_fd_release`, as it must be.
    pub fn is_valid(self) -> bool {
        if !self.has_own_files() {
            return true;
        }
        // SAFETY: The table is valid as long as the description.
        let release = unsafe { (*self.0.fops).release };
        release.is_some_and(|release| {
            let ours: unsafe extern "C" fn(*mut bindings::inode, *mut bindings::file) -> _ =
                bindings::uverbs_uobject_fd_release;
            core::ptr::fn_addr_eq(release, ours)
        })
    }

    /// Creates the file of a new object; `None` if the method that creates the object does so.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ENFILE`.
    pub fn new_file(self) -> Result<Option<CountedFile>> {
        if !self.has_own_files() {
            return Ok(None);
        }
        // SAFETY: By the type the description is that of a class of file descriptors.
        let file = from_err_ptr(unsafe { bindings::uverbs_fd_type_file(self.0) })?;
        Ok(NonNull::new(file).map(CountedFile))
    }

    /// Finds the object of a file descriptor of the current process, and takes a reference to its file.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not open, or not an object's of this type.
    pub fn find(self, fd: u32) -> Result<(CountedFile, ARef<Uobject>)> {
        // SAFETY: The function takes any number.
        let file = CountedFile(NonNull::new(unsafe { bindings::fget(fd) }).ok_or(EBADF)?);
        if file.operations() != self.0.fops {
            return Err(EBADF);
        }
        let object = NonNull::new(file.private_data().load(Ordering::Acquire)).ok_or(EBADF)?;
        // SAFETY: A file with these operations holds a reference to its object until it is released, and `file` keeps it.
        let object = unsafe { object.cast::<Uobject>().as_ref() };
        Ok((file, object.hold()))
    }

    /// Calls `destroy_object` of the type.
    ///
    /// # Safety
    ///
    /// The object is of this type and not destroyed, and the caller has exclusive access to it.
    pub(crate) unsafe fn destroy_object(self, object: &Uobject, why: bindings::rdma_remove_reason) {
        if let Some(destroy) = self.0.destroy_object {
            // SAFETY: By the safety requirements.
            unsafe { destroy(object.as_raw(), why) };
        }
    }
}

/// Calls `release_cleanup` of an object whose file is released, when it is dropped.
pub struct Cleanup {
    function: unsafe extern "C" fn(*mut bindings::ib_uobject),
    object: ARef<Uobject>,
}

impl Cleanup {
    /// Creates the call for an object; `None` if its type has no such function.
    pub(crate) fn of(object: &Uobject) -> Option<Self> {
        let function = FdType::of(object.api_object())?.0.release_cleanup?;
        Some(Self {
            function,
            object: object.hold(),
        })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        // SAFETY: The function belongs to the object's type, whose module is loaded as long as the file is open.
        unsafe { (self.function)(self.object.as_raw()) };
    }
}

/// A counted reference to a file.
pub struct CountedFile(NonNull<bindings::file>);

impl CountedFile {
    /// Takes over the reference that is the `object` of an object.
    ///
    /// # Safety
    ///
    /// The caller gives the reference up.
    pub(crate) unsafe fn from_raw(file: NonNull<c_void>) -> Self {
        Self(file.cast())
    }

    /// Gives up the reference, which becomes the `object` of an object.
    pub fn into_raw(self) -> *mut c_void {
        ManuallyDrop::new(self).0.as_ptr().cast()
    }

    fn operations(&self) -> *const bindings::file_operations {
        // SAFETY: The file is valid; the member is constant.
        unsafe { (*self.0.as_ptr()).f_op }
    }

    fn private_data(&self) -> &AtomicPtr<c_void> {
        // SAFETY: The file is valid; the member is a pointer that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.0.as_ptr()).private_data) }
    }
}

/// Commits an object that is being created: it becomes the `private_data` of its file, unless that is set, and the file gets its
/// descriptor in the current process.
///
/// # Safety
///
/// The number of the object is a descriptor that is reserved, its `object` is its file, and the caller gives up a reference to
/// the device file for it.
pub(crate) unsafe fn install(object: ARef<Uobject>) {
    let fd = object.id();
    object.set_id(0);
    let Some(file) = NonNull::new(object.object()) else {
        drop(Descriptor(fd));
        return;
    };
    // SAFETY: By the safety requirements.
    let file = unsafe { CountedFile::from_raw(file) };
    let object = ManuallyDrop::new(object);
    let private = file.private_data();
    if private.load(Ordering::Relaxed).is_null() {
        private.store(object.as_raw().cast(), Ordering::Release);
    }
    // SAFETY: By the safety requirements the number is reserved; the reference is given up.
    unsafe { bindings::fd_install(fd, file.into_raw().cast()) };
}

impl Drop for CountedFile {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reference.
        unsafe { bindings::fput(self.0.as_ptr()) };
    }
}

/// A reserved file descriptor of the current process. Dropping it frees the descriptor.
pub struct Descriptor(u32);

impl Descriptor {
    /// Reserves a descriptor with `O_CLOEXEC`.
    ///
    /// # Errors
    ///
    /// `EMFILE`, `ENOMEM`.
    pub fn reserve() -> Result<Self> {
        // SAFETY: The function may be called in process context.
        let fd = unsafe { bindings::get_unused_fd_flags(bindings::O_CLOEXEC) };
        u32::try_from(fd)
            .map(Self)
            .map_err(|_| Error::from_errno(fd))
    }

    /// Takes over a descriptor that [`Self::keep`] has left reserved.
    ///
    /// # Safety
    ///
    /// The descriptor is reserved in the current process, and the caller gives it up.
    pub(crate) unsafe fn resume(fd: u32) -> Self {
        Self(fd)
    }

    /// Leaves it reserved, for [`Self::resume`] or for the commit.
    pub fn keep(self) -> u32 {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: `self` owns the reserved descriptor.
        unsafe { bindings::put_unused_fd(self.0) };
    }
}
