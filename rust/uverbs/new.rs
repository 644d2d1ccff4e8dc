// SPDX-License-Identifier: GPL-2.0

//! Objects that a command creates.
//!
//! An object is begun, completed with the driver's object, and committed when the command succeeds. Lookups do not find it before
//! that. `hw_destroy_rwsem` is held for reading from the beginning to the commit.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

use core::{mem::ManuallyDrop, ops::Deref, ptr::NonNull};

use kernel::{error::from_err_ptr, prelude::*};
use kernel_ext::entry::View;
use rdma::{
    core::{object::Owned, uobject::ObjectLink, AttrBundle, Ucontext, Uobject},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{class::Class, lookup::WriteLocked};

/// How an object was begun.
#[derive(Clone, Copy)]
enum Origin {
    /// By the handler of a write command.
    Write,
    /// By the dispatch of ioctl, for an attribute of this ID.
    Attr(u16),
}

/// An object that a command creates, which is [completed](Self::complete), or dropped on failure. It dereferences to its
/// [memory](Class::Memory), zeroed at first.
///
/// # Invariants
///
/// The object was begun in `command`, is of the class `T`, and neither complete nor aborted.
pub struct NewObject<'a, T: Class> {
    object: NonNull<T::Memory>,
    command: &'a AttrBundle,
    origin: Origin,
}

impl<'a, T: Class> NewObject<'a, T> {
    /// Begins an object in the handler of a write command.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has no such objects, or the file no context; `EIO` if the device was removed or the file is
    /// being closed; `ENOMEM`; those of the rdma cgroup.
    pub fn begin(command: &'a AttrBundle, _sleep: &MaySleep) -> Result<Self> {
        let kind = command.file().api_object(T::ID).map_err(|_| EINVAL)?;
        // SAFETY: Both are valid; the token proves that the context may sleep.
        let object = from_err_ptr(unsafe {
            bindings::rdma_alloc_begin_uobject(kind.as_raw(), command.as_raw())
        })?;
        // INVARIANT: The object was just begun.
        // SAFETY: The function has returned an object, which is not null.
        let object = unsafe { NonNull::new_unchecked(object) }.cast();
        Ok(Self {
            object,
            command,
            origin: Origin::Write,
        })
    }

    /// The object that the dispatch of ioctl has begun for an attribute.
    ///
    /// # Errors
    ///
    /// `ENOENT` if user space did not send the attribute, `EINVAL` if it is of another class.
    ///
    /// # Safety
    ///
    /// The method's table has `UVERBS_ACCESS_NEW` for the attribute, and this is called once per command.
    pub unsafe fn of_attr(command: &'a AttrBundle, attr: u16) -> Result<Self> {
        // SAFETY: The command is valid; the function returns an attribute that is valid as long, or an errno.
        let uobject = unsafe {
            let attr = from_err_ptr(bindings::uverbs_attr_get(command.as_raw(), attr).cast_mut())?;
            (*attr).__bindgen_anon_1.obj_attr.uobject
        };
        let object = NonNull::new(uobject.cast::<Uobject>()).ok_or(ENOENT)?;
        // SAFETY: The dispatch of ioctl keeps the object during the command.
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

    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: By the type invariants; the memory of each class begins with the object.
        unsafe { self.object.cast().as_ref() }
    }

    /// The link to the object, for the driver's object that it is completed with.
    #[inline]
    pub fn link(&self) -> ObjectLink<'_> {
        // SAFETY: A driver's object that is created for this object completes it and is destroyed before it, unless its creation
        // fails. By the type invariants this object is neither complete nor aborted as long as `self` is borrowed.
        unsafe { ObjectLink::new(self.uobject()) }
    }

    /// Its handle or file descriptor.
    #[inline]
    pub fn id(&self) -> u32 {
        self.uobject().id()
    }

    /// The command that creates it.
    #[inline]
    pub fn command(&self) -> &'a AttrBundle {
        self.command
    }

    /// The context of the object.
    pub fn context(&self) -> Result<&Ucontext> {
        // SAFETY: By the type invariants the object is neither complete nor aborted as long as `self` is borrowed.
        unsafe { self.uobject().context() }.ok_or(EINVAL)
    }

    /// Completes the object with the driver's object; it is committed if the command succeeds. If the command fails after
    /// this, the object is destroyed as by [`RemoveReason::Abort`](rdma::core::uobject::RemoveReason::Abort).
    pub fn complete(self, object: Owned<T>) -> &'a T::Memory
    where
        T: View,
    {
        // SAFETY: The driver's object is a `T`, and this object owns it from now on.
        unsafe { self.uobject().set_object(object.into_raw().cast()) };
        self.finish()
    }

    /// As [`Self::complete`], and commits the object in place of another one, which is destroyed: the object gets its handle. The
    /// command does not fail after this.
    pub fn replace(self, old: WriteLocked<'a, T>, object: Owned<T>)
    where
        T: View,
    {
        // SAFETY: The driver's object is a `T`, and this object owns it from now on.
        unsafe { self.uobject().set_object(object.into_raw().cast()) };
        let this = ManuallyDrop::new(self);
        let (new, command) = (this.object.as_ptr().cast(), this.command.as_raw());
        let old = old.into_raw();
        // SAFETY: By the type invariants only the command uses both objects; the old one is unlocked when it is destroyed.
        unsafe {
            bindings::rdma_assign_uobject(old, new, command);
            bindings::rdma_alloc_commit_uobject(new, command);
            bindings::rdma_lookup_put_uobject(old, bindings::UVERBS_LOOKUP_DESTROY);
        }
    }

    /// As [`Self::complete`], where the `object` is set already or stays null.
    pub(crate) fn finish(self) -> &'a T::Memory {
        let this = ManuallyDrop::new(self);
        match this.origin {
            // SAFETY: Only this thread uses the command, which has no object yet.
            Origin::Write => unsafe {
                (*this.command.as_raw())
                    .__bindgen_anon_1
                    .__bindgen_anon_1
                    .uobject = this.object.as_ptr().cast();
            },
            Origin::Attr(attr) => this.command.set_object_complete(attr),
        }
        // SAFETY: By the type invariants; the object is valid during the command.
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
            // SAFETY: By the type invariants; it has no driver object. An object of an ioctl attribute is aborted by the
            // dispatch.
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
