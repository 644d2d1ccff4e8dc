// SPDX-License-Identifier: GPL-2.0

//! Objects that are being made.
//!
//! Nobody else finds one before it is committed, which whoever runs the command does when it has succeeded. Until then
//! the file's objects cannot be cleaned up.

use core::{mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{error::from_err_ptr, prelude::*};
use kernel_ext::door::View;
use rdma::{
    view::{object::Owned, AttrBundle, Ucontext, Uobject},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{class::Class, lookup::WriteLocked};

/// Where an object came from, which says how it is complete.
#[derive(Clone, Copy)]
enum Origin {
    /// A handler of `write()` has begun it.
    Write,
    /// It is an attribute of an `ioctl()`.
    Attr(u16),
}

/// An object that is being made by a command: to be [completed](Self::complete), or to be dropped when that fails.
///
/// It is a [`Class::Memory`], zeroed.
///
/// # Invariants
///
/// The object was begun, is of the kind `T`, and neither complete nor aborted; `command` is the one that it was begun in.
pub struct NewObject<'a, T: Class> {
    object: NonNull<T::Memory>,
    command: &'a AttrBundle,
    origin: Origin,
}

impl<'a, T: Class> NewObject<'a, T> {
    /// Begins an object in a handler of `write()`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no such objects, or the file no context; `EIO` if the device has gone or the file is
    /// being closed; `ENOMEM`; what the rdma cgroup says.
    pub fn begin(command: &'a AttrBundle, _sleep: &MaySleep) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: Both are there; the token shows that it may sleep.
        let object = from_err_ptr(unsafe {
            bindings::rdma_alloc_begin_uobject(kind.as_raw(), command.as_raw())
        })?;
        // INVARIANT: It was just begun.
        // SAFETY: The function returns an object or an errno.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        Ok(Self {
            object,
            command,
            origin: Origin::Write,
        })
    }

    /// The object that an `ioctl()` wants to be made for an attribute: the engine has begun it.
    ///
    /// # Errors
    ///
    /// `ENOENT` if user space does not want it, `EINVAL` if it is of another kind.
    ///
    /// # Safety
    ///
    /// The method's description says `UVERBS_ACCESS_NEW` for the attribute, and this is called once in a command.
    pub unsafe fn of_attr(command: &'a AttrBundle, attr: u16) -> Result<Self> {
        // SAFETY: The command is there; the function returns an attribute that is there as long, or an errno.
        let uobject = unsafe {
            let attr = from_err_ptr(bindings::uverbs_attr_get(command.as_raw(), attr).cast_mut())?;
            (*attr).__bindgen_anon_1.obj_attr.uobject
        };
        let object = NonNull::new(uobject.cast::<Uobject>()).ok_or(ENOENT)?;
        // SAFETY: The engine keeps the object during the command.
        if unsafe { object.as_ref() }.api_object().id() != T::ID.into() {
            return Err(EINVAL);
        }
        // INVARIANT: By the safety requirements.
        Ok(Self {
            object: object.cast(),
            command,
            origin: Origin::Attr(attr),
        })
    }

    /// What every object has.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: By the type invariants; the memory of each class begins with the object.
        unsafe { self.object.cast().as_ref() }
    }

    /// The number that it will have.
    #[inline]
    pub fn id(&self) -> u32 {
        self.uobject().id()
    }

    /// The command that makes it.
    #[inline]
    pub fn command(&self) -> &'a AttrBundle {
        self.command
    }

    /// The context that it is in.
    pub fn context(&self) -> Result<&Ucontext> {
        self.uobject().context().ok_or(EINVAL)
    }

    /// The object of the driver is there: the object is complete, and committed if the command succeeds. If it fails after
    /// this, the object is destroyed as by [`RemoveReason::Abort`](rdma::view::uobject::RemoveReason::Abort).
    pub fn complete(self, object: Owned<T>) -> &'a T::Memory
    where
        T: View,
    {
        // SAFETY: The driver's object is of the kind, and its owner is this object from now on.
        unsafe { self.uobject().set_object(object.into_raw().cast()) };
        self.finish()
    }

    /// As [`Self::complete`], in the place of an object that the command has alone: it gets the number of that, which is
    /// destroyed. For a command that can not fail after this.
    pub fn replace(self, old: WriteLocked<'a, T>, object: Owned<T>)
    where
        T: View,
    {
        // SAFETY: The driver's object is of the kind, and its owner is this object from now on.
        unsafe { self.uobject().set_object(object.into_raw().cast()) };
        let this = ManuallyDrop::new(self);
        let (new, command) = (this.object.as_ptr().cast(), this.command.as_raw());
        let old = old.into_raw();
        // SAFETY: By the type invariants both are the command's alone; the old one is unlocked when it is destroyed.
        unsafe {
            bindings::rdma_assign_uobject(old, new, command);
            bindings::rdma_alloc_commit_uobject(new, command);
            bindings::rdma_lookup_put_uobject(old, bindings::UVERBS_LOOKUP_DESTROY);
        }
    }

    /// As [`Self::complete`], where the `object` is set already, or stays null for the class has none.
    pub(crate) fn finish(self) -> &'a T::Memory {
        let this = ManuallyDrop::new(self);
        match this.origin {
            // SAFETY: The command is this thread's, and has no object yet.
            Origin::Write => unsafe {
                (*this.command.as_raw())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .uobject = this.object.as_ptr().cast();
            },
            Origin::Attr(attr) => this.command.set_object_complete(attr),
        }
        // SAFETY: By the type invariants; the object stays during the command.
        unsafe { this.object.as_ref() }
    }
}

impl<T: Class> Deref for NewObject<'_, T> {
    type Target = T::Memory;

    #[inline]
    fn deref(&self) -> &T::Memory {
        // SAFETY: By the type invariants.
        unsafe { self.object.as_ref() }
    }
}

impl<T: Class> Drop for NewObject<'_, T> {
    fn drop(&mut self) {
        if let Origin::Write = self.origin {
            // SAFETY: By the type invariants; the driver has no object for it. In an `ioctl()` the engine does it.
            unsafe {
                bindings::rdma_alloc_abort_uobject(
                    self.object.as_ptr().cast(),
                    self.command.as_raw(),
                    false,
                )
            };
        }
    }
}
