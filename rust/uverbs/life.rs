// SPDX-License-Identifier: GPL-2.0

//! The states of an object, as types: the arguments and results of the functions of ib_uverbs_support that create, look up and
//! destroy objects.
//!
//! | type | state |
//! |---|---|
//! | [`Kind`] | the object class that a caller asks for |
//! | [`Allocated`] | allocated |
//! | [`Reserved`] | with a handle or file descriptor; lookups do not find it |
//! | [`Uncommitted`] | begun, not committed: as `Reserved`, with `hw_destroy_rwsem` held for reading |
//! | [`Found`] | looked up |
//! | [`Exclusive`] | locked for writing |
//! | [`Released`] | its file is released |
//! | [`Reference`] | a reference to its memory |
//!
//! C header: `include/rdma/uverbs_types.h`.

use core::{marker::PhantomData, mem::ManuallyDrop, ptr::NonNull};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator, NumaNode},
    error::to_result,
    prelude::*,
    sync::aref::ARef,
    warn_on,
};
use kernel_ext::{
    entry::{FromC, IntoC},
    rwsem::ReadGuard,
};
use rdma::{
    core::{
        command::UverbsFile,
        uobject::{ApiObject, LookupMode, RemoveReason},
        AttrBundle, Ucontext, Uobject,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_uobject};

use crate::{
    fd::{self, Cleanup, CountedFile, Descriptor, FdType},
    file::{hw_destroy, File, FileRef},
    handles::{Handles, Number},
    list,
    write::Command,
};

/// The object class that a caller asks for.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    /// This one.
    Of(&'a ApiObject),
    /// Any class of objects with handles.
    Any,
    /// A class that the device does not have.
    Absent,
}

// SAFETY: `Raw` is the pointer type in the header: an object class, or an errno, of which `ENOMSG` stands for any class.
unsafe impl FromC for Kind<'_> {
    type Raw = *const bindings::uverbs_api_object;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        match kernel::error::from_err_ptr(raw.cast_mut()) {
            // SAFETY: By the safety requirements the pointer is null or valid; a view is a transparent wrapper.
            Ok(kind) => unsafe { kind.cast::<ApiObject>().as_ref() }.map_or(Self::Absent, Self::Of),
            Err(error) if error.to_errno() == -(bindings::ENOMSG as i32) => Self::Any,
            Err(_) => Self::Absent,
        }
    }
}

/// Allocates an object of a class, in the context of a command, locked for writing.
///
/// # Errors
///
/// `ENOMEM`; `EIO` if the driver was removed; `EINVAL` if `obj_size` of the type is too small for an object, or if the command
/// has no context.
pub fn allocate(kind: &ApiObject, command: &AttrBundle, _sleep: &MaySleep) -> Result<Allocated> {
    let context = command.context().ok_or(EINVAL)?;
    // SAFETY: The member is null after the driver was removed, and otherwise a type, which is constant.
    let size = unsafe { kind.type_attrs().as_ref() }.ok_or(EIO)?.obj_size;
    if size < size_of::<ib_uobject>() {
        return Err(EINVAL);
    }
    let layout =
        core::alloc::Layout::from_size_align(size, align_of::<u64>()).map_err(|_| EINVAL)?;
    let memory = Kmalloc::alloc(layout, GFP_KERNEL | __GFP_ZERO, NumaNode::NO_NODE)?;
    let object = memory.cast::<ib_uobject>();
    // SAFETY: The memory is new, zeroed and large enough. The result owns the first reference. By the contract of
    // `AttrBundle::set_context` the context stays as long as the object.
    unsafe {
        let raw = object.as_ptr();
        (*raw).ufile = command.file().as_raw();
        (*raw).context = context.as_raw();
        (*raw).uapi_object = kind.as_raw();
        (*raw).list.next = &raw mut (*raw).list;
        (*raw).list.prev = &raw mut (*raw).list;
        bindings::refcount_set(&raw mut (*raw).ref_.refcount, 1);
        let object = ARef::<Uobject>::from_raw(object.cast());
        object.try_lock(LookupMode::Write)?;
        // INVARIANT: The object was just allocated.
        Ok(Allocated(object))
    }
}

/// A new object without handle and file descriptor, locked for writing.
///
/// # Invariants
///
/// Only the holder of this value uses the object.
pub struct Allocated(ARef<Uobject>);

impl Allocated {
    /// Sets the handle of the object.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the handle belongs to another file, or the class has file descriptors.
    pub fn with_handle(self, number: Number<'_>) -> Result<Reserved> {
        if !core::ptr::eq(number.file(), self.0.file()) || has_descriptor(&self.0) {
            return Err(EINVAL);
        }
        self.0.set_id(number.keep());
        // INVARIANT: The handle stays reserved.
        Ok(Reserved(self.0))
    }

    /// Sets the file descriptor of the object, and its file, unless the method that creates the object does so.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the class has handles.
    pub fn with_descriptor(
        self,
        descriptor: Descriptor,
        file: Option<CountedFile>,
    ) -> Result<Reserved> {
        if !has_descriptor(&self.0) {
            return Err(EINVAL);
        }
        if let Some(file) = file {
            // SAFETY: The `object` of an object with a file descriptor is a counted reference to its file.
            unsafe { self.0.set_object(file.into_raw()) };
        }
        self.0.set_id(descriptor.keep());
        // INVARIANT: The descriptor stays reserved.
        Ok(Reserved(self.0))
    }
}

/// Whether an object has a file descriptor, and not a handle.
fn has_descriptor(object: &Uobject) -> bool {
    object.api_object().type_class() == &raw const bindings::uverbs_fd_class
}

/// A new object with a reserved handle or file descriptor. Dropping it frees that, and the file of the object.
///
/// # Invariants
///
/// Lookups do not find the object, which is not in the file's list. Its ID is reserved: among the handles of its file, or the
/// file descriptors of the current process. The `object` of an object with a file descriptor is null or a counted reference to
/// its file.
pub struct Reserved(ARef<Uobject>);

impl Reserved {
    /// Unlocks the object and publishes it: lookups find it from now on. An object with a file descriptor holds a reference to
    /// the device file until its own file is released.
    ///
    /// `file` is the object's file.
    pub fn publish(self, file: &UverbsFile) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used after this, and not dropped.
        let object = unsafe { core::ptr::read(&this.0) };
        // SAFETY: A new object is locked for writing, and lookups do not find it yet.
        unsafe { object.unlock(LookupMode::Write) };
        if has_descriptor(&object) {
            core::mem::forget(File::of(object.file()).hold());
            // SAFETY: By the type invariants the descriptor is reserved, and `object` is the file; the reference to the device
            // file was just leaked.
            unsafe { fd::install(object) };
        } else {
            Handles::of(file).publish(object);
        }
    }
}

impl Reserved {
    /// The context of the object.
    pub fn context(&self) -> Option<&Ucontext> {
        // SAFETY: By the type invariants the object is new, so it is not destroyed as long as `self` is borrowed.
        unsafe { self.0.context() }
    }
}

impl core::ops::Deref for Reserved {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.0
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let id = self.0.id();
        if has_descriptor(&self.0) {
            let file = NonNull::new(self.0.object());
            // SAFETY: By the type invariants the object owns the reference to the file, and the descriptor is reserved; both are
            // given up.
            unsafe {
                self.0.set_object(core::ptr::null_mut());
                drop(file.map(|file| CountedFile::from_raw(file)));
                drop(Descriptor::resume(id));
            }
        } else {
            drop(Handles::of(self.0.file()).free(id));
        }
        self.0.clear_context();
    }
}

/// An object that was begun, and neither committed nor aborted.
///
/// # Invariants
///
/// `hw_destroy_rwsem` of the object's file is held for reading.
pub struct Uncommitted {
    object: Reserved,
}

impl Uncommitted {
    /// Wraps an object that is begun. `guard` holds its file's `hw_destroy_rwsem`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the guard belongs to another file.
    pub fn new(object: Reserved, guard: ReadGuard<'_>) -> Result<Self> {
        if !core::ptr::eq(guard.semaphore(), hw_destroy(object.file())) {
            return Err(EINVAL);
        }
        core::mem::forget(guard);
        // INVARIANT: The semaphore stays held.
        Ok(Self { object })
    }

    /// Passes the object to `f`, and releases `hw_destroy_rwsem` of its file after that.
    pub fn finish(self, f: impl FnOnce(Reserved, &UverbsFile)) {
        let file = File::of(self.object.file()).hold();
        // SAFETY: By the type invariants the semaphore is held for reading, and `self` is consumed.
        let _guard = unsafe { hw_destroy(&file).assume_read() };
        f(self.object, &file);
    }

    /// The object, locked for writing.
    pub fn exclusive(&self) -> Exclusive<'_> {
        // INVARIANT: Lookups do not find the object, so that only the holder of `self` uses it.
        Exclusive(&self.object)
    }
}

impl core::ops::Deref for Uncommitted {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.object
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Uncommitted {
    type Raw = *mut ib_uobject;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the object was begun, and the function takes it over.
        // SAFETY: By the safety requirements the object is valid, and by the header the function takes over its reference.
        let object = unsafe { ARef::from_raw(NonNull::new_unchecked(raw).cast()) };
        Self {
            object: Reserved(object),
        }
    }
}

/// The result of a C entry point that allocates an object: the uncommitted object, or an errno (`ERR_PTR`).
pub struct UncommittedOrErr(pub Result<Uncommitted>);

impl IntoC for UncommittedOrErr {
    type Raw = *mut ib_uobject;

    fn into_c(self) -> Self::Raw {
        match self.0 {
            Ok(object) => ManuallyDrop::new(object).object.as_raw(),
            Err(error) => error.to_ptr(),
        }
    }
}

/// An object that was looked up: a reference to it, and one to its file if it has a file descriptor.
///
/// # Invariants
///
/// The holder of this value has locked the object in the mode `locked`.
pub struct Found {
    _file: Option<CountedFile>,
    object: ARef<Uobject>,
    locked: LookupMode,
}

impl Found {
    /// An object that was found by its handle.
    pub fn numbered(object: ARef<Uobject>) -> Self {
        // INVARIANT: `LookupMode::Destroy` stands for no lock.
        Self {
            _file: None,
            object,
            locked: LookupMode::Destroy,
        }
    }

    /// An object that was found by its file descriptor.
    pub fn of_file(file: CountedFile, object: ARef<Uobject>) -> Self {
        // INVARIANT: `LookupMode::Destroy` stands for no lock.
        Self {
            _file: Some(file),
            object,
            locked: LookupMode::Destroy,
        }
    }

    /// Takes over an object that a command has looked up.
    ///
    /// # Safety
    ///
    /// `raw` is what a lookup for `locked` has returned, and is given up.
    unsafe fn from_raw(raw: *mut ib_uobject, locked: LookupMode) -> Self {
        // SAFETY: By the safety requirements.
        let object = unsafe { ARef::<Uobject>::from_raw(NonNull::new_unchecked(raw).cast()) };
        let by_file = object.api_object().type_class() == &raw const bindings::uverbs_fd_class;
        let file = NonNull::new(object.object()).filter(|_| by_file);
        // SAFETY: A lookup by a file descriptor has taken a reference to the file.
        let _file = file.map(|file| unsafe { CountedFile::from_raw(file) });
        // INVARIANT: By the safety requirements and the header.
        Self {
            _file,
            object,
            locked,
        }
    }

    /// Locks the object without waiting.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a conflicting lock is held, or if `self` has locked it before.
    pub fn lock(&mut self, mode: LookupMode) -> Result {
        if self.locked != LookupMode::Destroy {
            return Err(EBUSY);
        }
        self.object.try_lock(mode)?;
        // INVARIANT: The object was just locked.
        self.locked = mode;
        Ok(())
    }

    /// Unlocks the object, and drops the references.
    pub fn put(self) {
        // SAFETY: By the type invariants the object is locked in this mode.
        unsafe { self.object.unlock(self.locked) };
    }
}

impl core::ops::Deref for Found {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        &self.object
    }
}

/// An object that was looked up, which C gives back together with a [`FoundMode`]. A value does not outlive the call, and no
/// exported function takes two of them.
pub struct FoundArg<'a>(*mut ib_uobject, PhantomData<&'a ib_uobject>);

/// The mode in which a [`FoundArg`] is locked.
pub struct FoundMode<'a>(LookupMode, PhantomData<&'a ib_uobject>);

impl<'a> FoundArg<'a> {
    /// Joins the two arguments.
    pub fn locked(self, FoundMode(mode, _): FoundMode<'a>) -> Found {
        // SAFETY: Both are from the same call. By the header the object was looked up in this mode, and is given up.
        unsafe { Found::from_raw(self.0, mode) }
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for FoundArg<'_> {
    type Raw = *mut ib_uobject;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the enumeration in the header.
unsafe impl FromC for FoundMode<'_> {
    type Raw = bindings::rdma_lookup_mode;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { LookupMode::from_c(raw) }, PhantomData)
    }
}

/// An object of an ioctl attribute, which C gives back together with an [`AcquiredFor`]. A value does not outlive the call, and
/// no exported function takes two of them.
pub struct AcquiredArg<'a>(*mut ib_uobject, PhantomData<&'a ib_uobject>);

/// The access that an [`AcquiredArg`] was acquired for.
pub struct AcquiredFor<'a>(bindings::uverbs_obj_access, PhantomData<&'a ib_uobject>);

/// An object of an ioctl attribute.
pub enum Acquired {
    /// An object that was looked up.
    Found(Found),
    /// An object that was begun.
    UncommittedOrErr(Uncommitted),
}

impl<'a> AcquiredArg<'a> {
    /// Joins the two arguments. `None` if there is no object: it may have been destroyed.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown access.
    pub fn acquired(self, AcquiredFor(access, _): AcquiredFor<'a>) -> Result<Option<Acquired>> {
        if self.0.is_null() {
            return Ok(None);
        }
        let mode = match access {
            bindings::UVERBS_ACCESS_READ => LookupMode::Read,
            bindings::UVERBS_ACCESS_WRITE => LookupMode::Write,
            bindings::UVERBS_ACCESS_DESTROY => LookupMode::Destroy,
            bindings::UVERBS_ACCESS_NEW => {
                // SAFETY: Both are from the same call. By the header the object was begun, and is given up.
                let begun = unsafe { Uncommitted::from_c(self.0) };
                return Ok(Some(Acquired::UncommittedOrErr(begun)));
            }
            _ => return Err(EINVAL),
        };
        // SAFETY: Both are from the same call. By the header the object was looked up in this mode, and is given up.
        let found = unsafe { Found::from_raw(self.0, mode) };
        Ok(Some(Acquired::Found(found)))
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for AcquiredArg<'_> {
    type Raw = *mut ib_uobject;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the enumeration in the header.
unsafe impl FromC for AcquiredFor<'_> {
    type Raw = bindings::uverbs_obj_access;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

/// The result of a function that looks an object up: the object, or an errno in the pointer.
pub struct LookedUp(pub Result<Found>);

impl IntoC for LookedUp {
    type Raw = *mut ib_uobject;

    fn into_c(self) -> Self::Raw {
        match self.0 {
            Ok(found) => ManuallyDrop::new(found).object.as_raw(),
            Err(error) => error.to_ptr(),
        }
    }
}

/// An object that is locked for writing.
///
/// # Invariants
///
/// Its use count is -1, and only the holder of this value uses the object.
pub struct Exclusive<'a>(&'a Uobject);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Exclusive<'_> {
    type Raw = *mut ib_uobject;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the safety requirements and the header.
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

impl<'a> Exclusive<'a> {
    /// Locks an object for writing.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is locked.
    pub fn try_lock(object: &'a Uobject) -> Result<Self> {
        object.try_lock(LookupMode::Write)?;
        // INVARIANT: The object was just locked.
        Ok(Self(object))
    }

    /// The object.
    pub fn get(&self) -> &'a Uobject {
        self.0
    }

    /// The context of the object; `None` after it was destroyed.
    pub fn context(&self) -> Option<&Ucontext> {
        // SAFETY: By the type invariants only `self` uses the object, and [`Self::end`] consumes it.
        unsafe { self.0.context() }
    }

    /// Ends an object that was destroyed: it has no context any more, and its file does not list it. With `keep_locked` later
    /// locks of it fail. An object whose `object` is still there is only unlocked.
    pub fn end(self, keep_locked: bool) {
        if warn_on!(!self.0.object().is_null()) {
            return self.unlock();
        }
        self.0.clear_context();
        let object = self.0;
        if !keep_locked {
            self.unlock();
        }
        drop(list::remove(object));
    }

    /// Unlocks the object.
    pub fn unlock(self) {
        // SAFETY: By the type invariants the object is locked for writing.
        unsafe { self.0.unlock(LookupMode::Write) };
    }

    /// Clears `object`, which the driver has failed to destroy.
    pub fn disown(&self) {
        // SAFETY: By the type invariants only `self` uses the object; null is always valid.
        unsafe { self.0.set_object(core::ptr::null_mut()) };
    }

    /// Calls `destroy_object` of the type of an object with a handle, unless it was destroyed.
    ///
    /// # Errors
    ///
    /// Those of the driver, after which the object stays; `EIO` if the driver was removed; `EINVAL` for a command of another
    /// file.
    pub fn destroy_numbered(
        &self,
        why: RemoveReason,
        command: &AttrBundle,
        _sleep: &MaySleep,
    ) -> Result {
        if self.0.object().is_null() {
            return Ok(());
        }
        if !core::ptr::eq(command.file(), self.0.file()) {
            return Err(EINVAL);
        }
        let description = self.0.api_object().type_attrs();
        // SAFETY: The description of a type of this class is the first member of a `uverbs_obj_idr_type`, and constant.
        let description = unsafe { description.cast::<bindings::uverbs_obj_idr_type>().as_ref() };
        let destroy = description.and_then(|it| it.destroy_object).ok_or(EIO)?;
        // SAFETY: By the type invariants only `self` uses the object. The description is that of its type, the command is of its
        // file, and it is not destroyed yet.
        to_result(unsafe { destroy(self.0.as_raw(), why as u32, command.as_raw()) })?;
        self.disown();
        Ok(())
    }

    /// Calls `destroy_object` of the type of an object with a file descriptor, unless it was destroyed. Its file stays.
    ///
    /// # Errors
    ///
    /// `EIO` if the driver was removed.
    pub fn destroy_described(&self, why: RemoveReason, _sleep: &MaySleep) -> Result {
        if self.0.object().is_null() {
            return Ok(());
        }
        let description = FdType::of(self.0.api_object()).ok_or(EIO)?;
        // SAFETY: By the type invariants only `self` uses the object. The description is that of its type, and it is not
        // destroyed yet.
        unsafe { description.destroy_object(self.0, why as u32) };
        Ok(())
    }
}

impl core::ops::Deref for Exclusive<'_> {
    type Target = Uobject;

    fn deref(&self) -> &Uobject {
        self.0
    }
}

/// An object whose file is released, with the references that the file has held.
pub struct Released {
    /// The device file. Dropped first.
    pub file: FileRef,
    _cleanup: Option<Cleanup>,
    /// The object.
    pub object: ARef<Uobject>,
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Released {
    type Raw = *mut ib_uobject;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the header the object is that of a released file, which has held both references since the object was
        // committed.
        unsafe {
            Self {
                file: ARef::from_raw(NonNull::new_unchecked((*raw).ufile).cast()),
                _cleanup: None,
                object: ARef::from_raw(NonNull::new_unchecked(raw).cast()),
            }
        }
    }
}

/// A file of an object, which is being released.
pub struct ReleasedFile(NonNull<bindings::file>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for ReleasedFile {
    type Raw = *mut bindings::file;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the file is valid.
        Self(unsafe { NonNull::new_unchecked(raw) })
    }
}

impl ReleasedFile {
    /// The file's object, whose `release_cleanup` is called last; `None` if it was never committed.
    pub fn into_object(self) -> Option<Released> {
        // SAFETY: The file is valid, and is released once, by the holder of `self`.
        let object = unsafe { (*self.0.as_ptr()).private_data };
        let object = NonNull::new(object.cast::<ib_uobject>())?;
        // SAFETY: A file with this release method has its object in `private_data`, and is released once.
        let mut released = unsafe { Released::from_c(object.as_ptr()) };
        released._cleanup = Cleanup::of(&released.object);
        Some(released)
    }
}

/// A reference to the memory of an object, which C gives up.
pub struct Reference(pub ARef<Uobject>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Reference {
    type Raw = *mut ib_uobject;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the object is valid, and by the header the function takes over the reference.
        Self(unsafe { ARef::from_raw(NonNull::new_unchecked(raw).cast()) })
    }
}

/// A file whose `hw_destroy_rwsem` is held for writing, so that all its objects can be destroyed, as an argument of C.
///
/// # Invariants
///
/// The semaphore is held for writing within `'a`.
#[derive(Clone, Copy)]
pub struct LockedFile<'a>(&'a UverbsFile);

impl<'a> LockedFile<'a> {
    /// The file of a test.
    ///
    /// # Safety
    ///
    /// The semaphore is held for writing within `'a`, or one thread alone uses the file.
    #[cfg(CONFIG_KUNIT = "y")]
    pub(crate) unsafe fn new(file: &'a UverbsFile) -> Self {
        // INVARIANT: By the safety requirements; without other threads it makes no difference whether the semaphore is held.
        Self(file)
    }

    /// A command of the file.
    pub fn command(self) -> OwnCommand<'a> {
        // INVARIANT: By the type invariants.
        OwnCommand(Command::empty(self.0), PhantomData)
    }
}

impl core::ops::Deref for LockedFile<'_> {
    type Target = UverbsFile;

    fn deref(&self) -> &UverbsFile {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for LockedFile<'_> {
    type Raw = *mut bindings::ib_uverbs_file;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the header the caller of a function that takes this argument holds the semaphore.
        // SAFETY: By the safety requirements; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

/// A command without a request, for the destruction of objects when their file is closed or the device is removed.
///
/// # Invariants
///
/// `hw_destroy_rwsem` of the file is held within `'a`, so that the context of the file stays.
pub struct OwnCommand<'a>(Command, PhantomData<&'a UverbsFile>);

impl<'a> OwnCommand<'a> {
    /// Creates a command of a file. `guard` holds its `hw_destroy_rwsem`.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the guard belongs to another file.
    pub fn new(file: &'a UverbsFile, guard: &'a ReadGuard<'_>) -> Result<Self> {
        if !core::ptr::eq(guard.semaphore(), hw_destroy(file)) {
            return Err(EINVAL);
        }
        // INVARIANT: The guard holds the semaphore.
        Ok(Self(Command::empty(file), PhantomData))
    }

    /// The command.
    pub fn get(&mut self) -> &AttrBundle {
        self.0.bundle()
    }
}

/// Sets the context of a command to that of its file, and returns it; `None` if the file has none.
pub fn use_context(command: &AttrBundle) -> Option<&Ucontext> {
    // SAFETY: The context is valid as long as commands run or objects of the file exist; a view is a transparent wrapper.
    unsafe {
        let context = command.file().ucontext().cast::<Ucontext>().as_ref();
        command.set_context(context);
        context
    }
}

/// Calls the driver's `ufile_hw_cleanup`, before a file's objects are destroyed. `context` is the file's.
pub fn announce_cleanup(file: &UverbsFile, context: &Ucontext, _sleep: &MaySleep) {
    if file.ucontext() != context.as_raw() {
        return;
    }
    if let Some(cleanup) = context.device().ops().ufile_hw_cleanup {
        // SAFETY: The driver's function takes the file of its context, as was checked; the token proves that the context may sleep.
        unsafe { cleanup(file.as_raw()) };
    }
}
