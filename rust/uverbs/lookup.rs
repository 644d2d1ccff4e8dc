// SPDX-License-Identifier: GPL-2.0

//! Objects that a command looks up by a handle or file descriptor of user space.
//!
//! C headers: `include/rdma/uverbs_std_types.h`, `include/rdma/uverbs_ioctl.h`.

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
};
use kernel_ext::entry::View;
use rdma::{
    core::{uobject::LookupMode, AttrBundle, Uobject},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::class::Class;

mod sealed {
    /// The modes of this file.
    pub trait Sealed {}
}

/// How a [`Locked`] object is locked.
pub trait Mode: sealed::Sealed {
    /// The mode of the lookup.
    const MODE: LookupMode;
}

/// `UVERBS_LOOKUP_READ`: other commands may read the object too.
pub struct Read;

impl sealed::Sealed for Read {}

impl Mode for Read {
    const MODE: LookupMode = LookupMode::Read;
}

/// `UVERBS_LOOKUP_WRITE`: no other command uses the object.
pub struct Write;

impl sealed::Sealed for Write {}

impl Mode for Write {
    const MODE: LookupMode = LookupMode::Write;
}

/// An object that a command has looked up and locked. Dropping it puts the object back. It dereferences to the driver's
/// object: a `ReadLocked<Pd>` to a `Pd`.
///
/// # Invariants
///
/// The object is of the class `T`, and was looked up in the mode `M`.
pub struct Locked<'a, T: Class, M: Mode> {
    object: NonNull<T::Memory>,
    _command: PhantomData<&'a AttrBundle>,
    _class: PhantomData<(&'a T, M)>,
}

/// An object that a command reads (`uobj_get_read`).
pub type ReadLocked<'a, T> = Locked<'a, T, Read>;

/// An object that a command changes (`uobj_get_write`).
pub type WriteLocked<'a, T> = Locked<'a, T, Write>;

impl<'a, T: Class, M: Mode> Locked<'a, T, M> {
    fn look_up(command: &'a AttrBundle, id: i64) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: All are valid during the call.
        let object = from_err_ptr(unsafe {
            bindings::rdma_lookup_get_uobject(
                kind.as_raw(),
                command.file().as_raw(),
                id,
                M::MODE.as_raw(),
                command.as_raw(),
            )
        })?;
        // SAFETY: The function has returned an object, which is not null.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: The object was just looked up.
        Ok(Self {
            object,
            _command: PhantomData,
            _class: PhantomData,
        })
    }

    /// Looks up the object of a handle.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none; `EINVAL` if it is of another class, or the device has no such objects; `EBUSY` if another
    /// command has locked it, unless both read; `EIO` if the device was removed.
    pub fn get(command: &'a AttrBundle, id: u32, _sleep: &MaySleep) -> Result<Self> {
        Self::look_up(command, id.into())
    }

    /// Passes the object to a function of C that puts it back.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_uobject {
        core::mem::ManuallyDrop::new(self).object.as_ptr().cast()
    }

    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: By the type invariants; the memory of each class begins with the object.
        unsafe { self.object.cast().as_ref() }
    }

    /// The memory of the object.
    #[inline]
    pub fn memory(&self) -> &T::Memory {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }
}

impl<'a, T: Class> ReadLocked<'a, T> {
    /// Looks up the object of a file descriptor of the current process.
    ///
    /// # Errors
    ///
    /// `EBADF` if it is not an object's of this device file; else as for [`Self::get`].
    pub fn get_fd(command: &'a AttrBundle, fd: i32, _sleep: &MaySleep) -> Result<Self> {
        Self::look_up(command, fd.into())
    }
}

impl<T: Class + View, M: Mode> Deref for Locked<'_, T, M> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: An object that is locked is complete and not destroyed, so its `object` is a `T`; a view is a transparent
        // wrapper.
        unsafe { &*self.uobject().object().cast() }
    }
}

impl<T: Class, M: Mode> Drop for Locked<'_, T, M> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::rdma_lookup_put_uobject(self.object.as_ptr().cast(), M::MODE.as_raw()) };
    }
}

/// An object that a command has destroyed. Its memory is valid until this value is dropped, for the response.
///
/// # Invariants
///
/// The object is of the class `T`, was destroyed, and is looked up in the mode `UVERBS_LOOKUP_DESTROY`.
pub struct Destroyed<'a, T: Class> {
    object: NonNull<T::Memory>,
    _command: PhantomData<&'a AttrBundle>,
}

impl<'a, T: Class> Destroyed<'a, T> {
    /// Destroys the object of a handle (`uobj_get_destroy`).
    ///
    /// # Errors
    ///
    /// As for [`WriteLocked::get`] without `EIO`, and those of the driver, after which the object stays.
    pub fn get(command: &'a AttrBundle, id: u32, _sleep: &MaySleep) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: Both are valid during the call; the token proves that the context may sleep.
        let object = from_err_ptr(unsafe {
            bindings::__uobj_get_destroy(kind.as_raw(), id, command.as_raw())
        })?;
        // SAFETY: The function has returned an object, which is not null.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: The object was just destroyed.
        Ok(Self {
            object,
            _command: PhantomData,
        })
    }
}

impl<T: Class> Deref for Destroyed<'_, T> {
    type Target = T::Memory;

    #[inline]
    fn deref(&self) -> &T::Memory {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Class> Drop for Destroyed<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::rdma_lookup_put_uobject(
                self.object.as_ptr().cast(),
                bindings::UVERBS_LOOKUP_DESTROY,
            )
        };
    }
}

/// Destroys the object of a handle (`uobj_perform_destroy`).
///
/// # Errors
///
/// As for [`Destroyed::get`].
pub fn destroy<T: Class>(command: &AttrBundle, id: u32, sleep: &MaySleep) -> Result {
    Destroyed::<T>::get(command, id, sleep).map(drop)
}

/// How a method of ioctl accesses the object of an attribute: `enum uverbs_obj_access`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Access {
    /// Looked up and locked for reading.
    Read = bindings::UVERBS_ACCESS_READ,
    /// Looked up and locked for writing.
    Write = bindings::UVERBS_ACCESS_WRITE,
    /// Created by the method.
    New = bindings::UVERBS_ACCESS_NEW,
    /// Destroyed by the method.
    Destroy = bindings::UVERBS_ACCESS_DESTROY,
}

impl Access {
    /// From C's `enum uverbs_obj_access`.
    pub fn from_raw(raw: u32) -> Option<Self> {
        [Self::Read, Self::Write, Self::New, Self::Destroy]
            .into_iter()
            .find(|access| *access as u32 == raw)
    }
}

/// An object that a command has acquired for an attribute of ioctl, or that a handler of write has created. Dropping it is
/// [`finish`](Self::finish) for a command that failed.
///
/// # Invariants
///
/// The object was acquired in `command` with the access, and not finished.
pub struct Acquired<'a> {
    object: NonNull<Uobject>,
    access: Access,
    command: &'a AttrBundle,
}

impl<'a> Acquired<'a> {
    /// Looks an object up, or begins a new one and ignores `id`. [`Self::destroy`] destroys an object that was acquired for
    /// that.
    ///
    /// # Errors
    ///
    /// As for [`ReadLocked::get`], [`WriteLocked::get`] and [`NewObject::begin`](crate::new::NewObject::begin).
    pub fn get(
        command: &'a AttrBundle,
        object_id: u16,
        access: Access,
        id: i64,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: The command is valid; the token proves that the context may sleep.
        let object = from_err_ptr(unsafe {
            bindings::uverbs_get_uobject_from_file(object_id, access as u32, id, command.as_raw())
        })?;
        // SAFETY: The function has returned an object, which is not null.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: The object was just acquired.
        Ok(Self {
            object,
            access,
            command,
        })
    }

    /// The object that a handler of write has completed, if any.
    pub fn completed(command: &'a AttrBundle) -> Option<Self> {
        // SAFETY: Only this thread uses the command.
        let object = unsafe {
            let member = &raw mut (*command.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .uobject;
            member.replace(core::ptr::null_mut())
        };
        // INVARIANT: The handler has begun the object, and the command holds its reference.
        NonNull::new(object.cast()).map(|object| Self {
            object,
            access: Access::New,
            command,
        })
    }

    /// Takes back an object from [`Self::into_raw`].
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`] of the same command and access, and this is called once for it.
    pub unsafe fn from_raw(
        command: &'a AttrBundle,
        object: NonNull<bindings::ib_uobject>,
        access: Access,
    ) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            object: object.cast(),
            access,
            command,
        }
    }

    /// Passes the object to a C structure, which keeps it for [`Self::from_raw`].
    pub fn into_raw(self) -> NonNull<bindings::ib_uobject> {
        core::mem::ManuallyDrop::new(self).object.cast()
    }

    /// The object.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }

    /// Destroys an object that was acquired for that.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is locked, and those of the driver.
    pub fn destroy(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants; the token proves that the context may sleep.
        to_result(unsafe { bindings::uobj_destroy(self.uobject().as_raw(), self.command.as_raw()) })
    }

    /// Puts the object back. With `commit` a new one is committed, else it is aborted: destroyed first if it is `complete`.
    pub fn finish(self, complete: bool, commit: bool, _sleep: &MaySleep) {
        let this = core::mem::ManuallyDrop::new(self);
        this.put(complete, commit);
    }

    fn put(&self, complete: bool, commit: bool) {
        // SAFETY: By the type invariants the object is not finished, and `self` is consumed.
        unsafe {
            bindings::uverbs_finalize_object(
                self.object.as_ptr().cast(),
                self.access as u32,
                complete,
                commit,
                self.command.as_raw(),
            )
        };
    }
}

impl Drop for Acquired<'_> {
    fn drop(&mut self) {
        self.put(false, false);
    }
}
