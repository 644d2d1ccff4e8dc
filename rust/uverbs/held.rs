// SPDX-License-Identifier: GPL-2.0

//! Objects that a command has looked up, by the number or file descriptor that user space has sent.

use core::{marker::PhantomData, ops::Deref, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
};
use kernel_ext::door::View;
use rdma::{
    core::{uobject::LookupMode, AttrBundle, Uobject},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::class::Class;

/// An object that is looked up: it is locked, and stays, as long as this.
///
/// A [`View`] is what the driver has: `Held<Pd>` is a `Pd`.
///
/// # Invariants
///
/// The object is of the kind `T`, and was looked up in the mode.
pub struct Held<'a, T: Class> {
    object: NonNull<T::Memory>,
    mode: LookupMode,
    _command: PhantomData<&'a AttrBundle>,
    _class: PhantomData<&'a T>,
}

impl<'a, T: Class> Held<'a, T> {
    fn look_up(command: &'a AttrBundle, id: i64, mode: LookupMode) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: All are there.
        let object = from_err_ptr(unsafe {
            bindings::rdma_lookup_get_uobject(
                kind.as_raw(),
                command.file().as_raw(),
                id,
                mode.as_raw(),
                command.as_raw(),
            )
        })?;
        // SAFETY: The function returns an object or an errno.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: It was just looked up.
        Ok(Self {
            object,
            mode,
            _command: PhantomData,
            _class: PhantomData,
        })
    }

    /// Shares the object of a number with others who do.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none; `EINVAL` if it is of another kind, or the device has no such objects; `EBUSY` if
    /// somebody has it alone; `EIO` if the device has gone.
    pub fn read(command: &'a AttrBundle, id: u32, _sleep: &MaySleep) -> Result<Self> {
        Self::look_up(command, id.into(), LookupMode::Read)
    }

    /// Has the object of a number alone.
    ///
    /// # Errors
    ///
    /// As for [`Self::read`], and `EBUSY` if somebody shares it.
    pub fn write(command: &'a AttrBundle, id: u32, _sleep: &MaySleep) -> Result<Self> {
        Self::look_up(command, id.into(), LookupMode::Write)
    }

    /// Shares the object of a file descriptor of the present process.
    ///
    /// # Errors
    ///
    /// `EBADF` if the descriptor is none, or of something else or of another device file; else as for [`Self::read`].
    pub fn read_fd(command: &'a AttrBundle, fd: i32, _sleep: &MaySleep) -> Result<Self> {
        Self::look_up(command, fd.into(), LookupMode::Read)
    }

    /// Gives the object to who puts it back.
    pub(crate) fn into_raw(self) -> *mut bindings::ib_uobject {
        core::mem::ManuallyDrop::new(self).object.as_ptr().cast()
    }

    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: By the type invariants; the memory of each class begins with the object.
        unsafe { self.object.cast().as_ref() }
    }

    /// What ib_uverbs keeps of it.
    #[inline]
    pub fn memory(&self) -> &T::Memory {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Class + View> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: An object that is locked was not destroyed, so it has what its kind says; a view is a transparent wrapper.
        unsafe { &*self.uobject().object().cast() }
    }
}

impl<T: Class> Drop for Held<'_, T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe {
            bindings::rdma_lookup_put_uobject(self.object.as_ptr().cast(), self.mode.as_raw())
        };
    }
}

/// An object that a command has destroyed: its memory is there for the response, and nobody else finds it.
///
/// # Invariants
///
/// The object is of the kind `T`, was destroyed, and is to be put back as looked up for that.
pub struct Removed<'a, T: Class> {
    object: NonNull<T::Memory>,
    _command: PhantomData<&'a AttrBundle>,
}

impl<'a, T: Class> Removed<'a, T> {
    /// Destroys the object of a number.
    ///
    /// # Errors
    ///
    /// As for [`Held::write`] without `EIO`, and what the driver says: then the object stays.
    pub fn destroy(command: &'a AttrBundle, id: u32, _sleep: &MaySleep) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: Both are there; the token shows that it may sleep.
        let object = from_err_ptr(unsafe {
            bindings::__uobj_get_destroy(kind.as_raw(), id, command.as_raw())
        })?;
        // SAFETY: The function returns an object or an errno.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: It was just destroyed.
        Ok(Self {
            object,
            _command: PhantomData,
        })
    }
}

impl<T: Class> Deref for Removed<'_, T> {
    type Target = T::Memory;

    #[inline]
    fn deref(&self) -> &T::Memory {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Class> Drop for Removed<'_, T> {
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

/// Destroys the object of a number, where nothing of it is wanted any more.
///
/// # Errors
///
/// As for [`Removed::destroy`].
pub fn destroy<T: Class>(command: &AttrBundle, id: u32, sleep: &MaySleep) -> Result {
    Removed::<T>::destroy(command, id, sleep).map(drop)
}

/// How an attribute of an `ioctl()` wants its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Access {
    /// Shared.
    Read = bindings::UVERBS_ACCESS_READ,
    /// Alone.
    Write = bindings::UVERBS_ACCESS_WRITE,
    /// Made.
    New = bindings::UVERBS_ACCESS_NEW,
    /// Destroyed.
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

/// An object as the engine of `ioctl()` has it for an attribute, and `write()` what its handler has completed.
///
/// Dropping it is as [`finish`](Self::finish) where nothing was done.
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
    /// Looks an object up or begins a new one (then `id` is ignored). One to be destroyed is not destroyed yet: see
    /// [`Self::destroy`].
    ///
    /// # Errors
    ///
    /// As for [`Held::read`], [`Held::write`] and [`NewObject::begin`](crate::new::NewObject::begin).
    pub fn get(
        command: &'a AttrBundle,
        object_id: u16,
        access: Access,
        id: i64,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        // SAFETY: The command is there; the token shows that it may sleep.
        let object = from_err_ptr(unsafe {
            bindings::uverbs_get_uobject_from_file(object_id, access as u32, id, command.as_raw())
        })?;
        // SAFETY: The function returns an object or an errno.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        // INVARIANT: It was just acquired.
        Ok(Self {
            object,
            access,
            command,
        })
    }

    /// What a handler of `write()` has completed, if it has begun an object.
    pub fn completed(command: &'a AttrBundle) -> Option<Self> {
        // SAFETY: The command is this thread's.
        let object = unsafe {
            let member = &raw mut (*command.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .uobject;
            member.replace(core::ptr::null_mut())
        };
        // INVARIANT: The handler has begun it, and its reference is in the command.
        NonNull::new(object.cast()).map(|object| Self {
            object,
            access: Access::New,
            command,
        })
    }

    /// Takes an object back that [`Self::into_raw`] has given.
    ///
    /// # Safety
    ///
    /// It did, in the same command with the same access, and this is called once for it.
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

    /// Gives the object to a structure of C, which keeps it for [`Self::from_raw`].
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
    /// `EBUSY` if somebody has it, and what the driver says.
    pub fn destroy(&self, _sleep: &MaySleep) -> Result {
        // SAFETY: By the type invariants; the token shows that it may sleep.
        to_result(unsafe { bindings::uobj_destroy(self.uobject().as_raw(), self.command.as_raw()) })
    }

    /// Puts the object back; a new one is committed, or aborted: then destroyed too if it is complete.
    pub fn finish(self, complete: bool, commit: bool, _sleep: &MaySleep) {
        let this = core::mem::ManuallyDrop::new(self);
        this.put(complete, commit);
    }

    fn put(&self, complete: bool, commit: bool) {
        // SAFETY: By the type invariants, and `self` goes.
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
