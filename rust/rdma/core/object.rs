// SPDX-License-Identifier: GPL-2.0

//! Ownership of the objects that the core allocates and a driver creates and destroys.
//!
//! | type | meaning |
//! |---|---|
//! | [`Fresh<T>`] | memory of an object that is not created yet, of the size that the driver declares; dropping it frees it |
//! | [`Owned<T>`] | an object that the driver has created, with its ownership; dropping it leaks the object |
//! | `&T` | a borrowed object, which is valid during the call |
//!
//! A create method of a driver turns a `Fresh<T>` into an `Owned<T>`, and a destroy method does the reverse; on failure the
//! argument is handed back ([`Failed`]). So no object is freed that a driver still uses, and no object is used after it was
//! freed.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator, NumaNode},
    error::to_result,
    ffi::c_int,
    prelude::*,
};
use kernel_ext::entry::{view_of, FromC, IntoC, View};
use rdma_bindings::{self as bindings, ib_device_ops, ib_udata};

use super::{Device, RestrackEntry};
use crate::MaySleep;

view_of! {
    /// The part of a user command that is for the driver (`struct ib_udata`). The core passes it through.
    pub struct UdataView(ib_udata);
}

impl UdataView {
    /// The pointer that a driver's method takes: null where a client in the kernel calls.
    #[inline]
    pub(crate) fn pointer(udata: Option<&Self>) -> *mut ib_udata {
        udata.map_or(core::ptr::null_mut(), Self::as_raw)
    }
}

/// An object whose memory the core allocates, of the size that the driver declares in `struct ib_device_ops`.
///
/// # Safety
///
/// The all-zero value is valid for `C`, and so is any value of its members.
pub unsafe trait DriverObject: View {
    /// The size in bytes that the driver declares, the core's part at the beginning included; 0 if it declares none.
    fn size(ops: &ib_device_ops) -> usize;

    /// Whether the driver may choose the NUMA node of the object.
    const NUMA: bool = false;

    /// Whether RCU readers may refer to the object when it is destroyed. They may read all of it except for the first two words.
    const RCU: bool = false;

    /// Prepares the resource tracking entry of a new object, if it has one: its type, and the first reference.
    #[inline]
    fn begin_entry(_object: &mut Self::C) {}
}

/// An object with a resource tracking entry.
///
/// # Safety
///
/// [`Self::res`] always returns the object's own entry, a member of it.
pub unsafe trait Tracked {
    /// The resource tracking entry.
    fn res(&self) -> &RestrackEntry;
}

/// Memory of an object that no driver has created yet, or that the driver has destroyed.
///
/// # Invariants
///
/// The memory is from `Kmalloc`, `self` owns it exclusively, and it begins with an initialised `T::C`.
pub struct Fresh<T: DriverObject>(NonNull<T>);

impl<T: DriverObject> Fresh<T> {
    /// Allocates zeroed memory; without `sleep`, with `GFP_ATOMIC`. The members that a driver relies on are set before the memory
    /// is handed out.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn alloc(device: &Device, sleep: Option<&MaySleep>) -> Result<Self> {
        let flags = if sleep.is_some() {
            GFP_KERNEL
        } else {
            GFP_ATOMIC
        };
        let node = if T::NUMA {
            device.numa_node()
        } else {
            NumaNode::NO_NODE
        };
        Self::alloc_size(T::size(device.ops()), flags, node)
    }

    /// Allocates zeroed memory for the core's part alone, without driver data.
    pub(crate) fn alloc_core(_sleep: &MaySleep) -> Result<Self> {
        Self::alloc_size(0, GFP_KERNEL, NumaNode::NO_NODE)
    }

    fn alloc_size(size: usize, flags: kernel::alloc::Flags, node: NumaNode) -> Result<Self> {
        let size = size.max(size_of::<T::C>());
        let layout = core::alloc::Layout::from_size_align(size, align_of::<u64>());
        let layout = layout.map_err(|_| EOVERFLOW)?;
        const { assert!(align_of::<T::C>() <= align_of::<u64>()) };
        let memory = Kmalloc::alloc(layout, flags | __GFP_ZERO, node)?;
        // INVARIANT: The memory was just allocated, and zeros are a valid `T::C`.
        let mut fresh = Self(memory.cast());
        T::begin_entry(fresh.raw());
        Ok(fresh)
    }

    /// The core's part, to be filled in.
    #[inline]
    pub(crate) fn raw(&mut self) -> &mut T::C {
        // SAFETY: By the type invariants `self` owns the memory exclusively, and it begins with a valid `T::C`.
        unsafe { &mut *self.0.as_ptr().cast() }
    }

    /// Calls `create`, a create method of the driver, which returns 0 or a negative errno.
    ///
    /// # Safety
    ///
    /// When `create` returns 0 the driver has created the object.
    #[inline]
    pub(crate) unsafe fn create(self, create: impl FnOnce(*mut T::C) -> c_int) -> Created<T> {
        match to_result(create(self.as_ptr())) {
            // INVARIANT: By the safety requirements.
            Ok(()) => Ok(Owned(ManuallyDrop::new(self).0)),
            Err(error) => Err(Failed {
                object: self,
                error,
            }),
        }
    }

    /// The object, of which the core has filled its members in.
    ///
    /// # Safety
    ///
    /// The reference reaches no method of a driver that asks for an object that it has created.
    #[inline]
    pub unsafe fn members(&self) -> &T {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn as_ptr(&self) -> *mut T::C {
        self.0.as_ptr().cast()
    }
}

// SAFETY: The entry is a member of the object that `self` owns.
unsafe impl<T: DriverObject + Tracked> Tracked for Fresh<T> {
    #[inline]
    fn res(&self) -> &RestrackEntry {
        // SAFETY: Only the entry is used.
        unsafe { self.members() }.res()
    }
}

impl<T: DriverObject> Drop for Fresh<T> {
    fn drop(&mut self) {
        if T::RCU {
            const { assert!(!T::RCU || size_of::<T::C>() >= size_of::<bindings::callback_head>()) };
            // SAFETY: By the type invariants; the first two words of the object, which RCU readers do not read, hold the
            // `rcu_head` until the memory is freed.
            unsafe { bindings::rdma_object_free_rcu(self.0.as_ptr().cast()) };
            return;
        }
        // SAFETY: By the type invariants; `kfree` does not look at the size.
        unsafe { Kmalloc::free(self.0.cast(), core::alloc::Layout::new::<T::C>()) };
    }
}

/// An object that its driver has created, with its ownership: `struct ib_x *`, which the owner destroys.
///
/// # Invariants
///
/// The object is valid, and only the holder of this value destroys it.
pub struct Owned<T: View>(NonNull<T>);

// SAFETY: The value owns the object, and a `T: Send` may be destroyed on another thread.
unsafe impl<T: View + Send> Send for Owned<T> {}

impl<T: View> Owned<T> {
    /// Takes over the ownership of an object.
    ///
    /// # Safety
    ///
    /// The driver has created the object, and the caller was its owner.
    #[inline]
    pub unsafe fn from_raw(raw: NonNull<T::C>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw.cast())
    }

    /// Hands the object over to C.
    #[inline]
    pub fn into_raw(self) -> *mut T::C {
        self.0.as_ptr().cast()
    }
}

impl<T: DriverObject> Owned<T> {
    /// Calls `destroy`, a destroy method of the driver, which returns 0 or a negative errno.
    ///
    /// # Safety
    ///
    /// When `destroy` returns 0 the driver does not use the object any more, and has left the core's part as it was.
    #[inline]
    pub(crate) unsafe fn destroy(self, destroy: impl FnOnce(*mut T::C) -> c_int) -> Destroyed<T> {
        match to_result(destroy(self.0.as_ptr().cast())) {
            // INVARIANT: The core has allocated the memory, and by the safety requirements the driver does not use it any more.
            Ok(()) => Ok(Fresh(self.0)),
            Err(error) => Err(Failed {
                object: self,
                error,
            }),
        }
    }

    /// Turns an object of the core alone back into memory.
    ///
    /// # Safety
    ///
    /// The object was made by [`Fresh::core_only`], and no pointer to it is used any more.
    #[inline]
    pub(crate) unsafe fn into_memory(self) -> Fresh<T> {
        // INVARIANT: By the safety requirements.
        Fresh(self.0)
    }
}

impl<T: DriverObject> Fresh<T> {
    /// Turns the memory into an object of the core alone, which no driver creates.
    #[inline]
    pub(crate) fn core_only(self) -> Owned<T> {
        // INVARIANT: The object needs no driver to create it, and the exclusive ownership passes to the result.
        Owned(ManuallyDrop::new(self).0)
    }
}

impl<T: View> Deref for Owned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.as_ref() }
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: View> FromC for Owned<T> {
    type Raw = *mut T::C;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is an object, and the header says that the function takes it over.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

/// The error of a create or destroy method, with the object that the method was given.
pub struct Failed<O> {
    /// The object that the method was given.
    pub object: O,
    /// Why it failed.
    pub error: Error,
}

impl<O> Failed<O> {
    /// Leaks the object, which stays as it is, and returns the error.
    pub fn keep(self) -> Error {
        self.error
    }
}

/// The result of a create method.
pub type Created<T> = Result<Owned<T>, Failed<Fresh<T>>>;

/// The result of a destroy method.
pub type Destroyed<T> = Result<Fresh<T>, Failed<Owned<T>>>;

/// The result of a C entry point that creates an object: the object, or an errno (`ERR_PTR`).
pub struct OwnedOrErr<T: View>(pub Result<Owned<T>>);

impl<T: View> IntoC for OwnedOrErr<T> {
    type Raw = *mut T::C;

    #[inline]
    fn into_c(self) -> Self::Raw {
        self.0.map_or_else(|error| error.to_ptr(), Owned::into_raw)
    }
}

/// The number of users of an object: its member `usecnt`.
#[derive(Clone, Copy)]
pub struct UseCount<'a>(&'a AtomicI32);

impl<'a> UseCount<'a> {
    /// Borrows the use count of an object.
    ///
    /// # Safety
    ///
    /// `count` is valid for `'a`.
    #[inline]
    pub unsafe fn new(count: *mut rdma_bindings::atomic_t) -> Self {
        // SAFETY: By the safety requirements; C accesses the count atomically too.
        Self(unsafe { AtomicI32::from_ptr(count.cast()) })
    }

    /// Counts one more user.
    #[inline]
    pub fn inc(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one user less.
    ///
    /// # Safety
    ///
    /// A user that was counted does not use the object any more, and is not counted down again.
    #[inline]
    pub unsafe fn dec(self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are users.
    #[inline]
    pub fn is_used(self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// The use counts of the parents of an object, which are decremented when the object is destroyed.
///
/// # Invariants
///
/// Each pointer is null, or the use count of an object that counts the destroyed one as a user, and so is valid until it is
/// decremented.
pub(super) struct ParentCounts<const N: usize>([*mut rdma_bindings::atomic_t; N]);

impl<const N: usize> ParentCounts<N> {
    /// Collects the use counts of an object's parents.
    ///
    /// # Safety
    ///
    /// Each pointer is null, or the use count of a parent that counts this object as a user.
    pub(super) unsafe fn new(counts: [*mut rdma_bindings::atomic_t; N]) -> Self {
        // INVARIANT: By the safety requirements.
        Self(counts)
    }

    /// Decrements all counts.
    ///
    /// # Safety
    ///
    /// The object that the parents count as a user is destroyed.
    pub(super) unsafe fn release(self) {
        for count in self.0.into_iter().filter(|count| !count.is_null()) {
            // SAFETY: By the type invariants the count is valid, and by the safety requirements the counted user is destroyed.
            unsafe { UseCount::new(count).dec() };
        }
    }
}

/// Defines accessors of pointer members that are constant during the object's life, and whose targets live at least as long as
/// the object.
///
/// `name: Type` is a target that is never null, `name?: Type` one that may be.
macro_rules! links {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> &$ty {
            // SAFETY: The member is constant after the object is made, and its target lives at least as long as the object.
            unsafe { &*(*self.as_raw()).$($member).+.cast() }
        }
    )*};
}
pub(crate) use links;

/// As [`links`], for pointers that may be null.
macro_rules! optional_links {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> Option<&$ty> {
            // SAFETY: The member is constant after the object is made, and its target lives at least as long as the object.
            unsafe { (*self.as_raw()).$($member).+.cast::<$ty>().as_ref() }
        }
    )*};
}
pub(crate) use optional_links;

/// Defines accessors of members that are constant during the object's life.
macro_rules! constants {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> $ty {
            // SAFETY: The member is constant after the object is made.
            unsafe { (&raw const (*self.as_raw()).$($member).+).read() }
        }
    )*};
}
pub(crate) use constants;

/// Defines accessors of the use count and of the resource tracking entry.
macro_rules! counted {
    ($view:ty) => {
        impl $view {
            /// The use count.
            #[inline]
            pub fn uses(&self) -> $crate::core::object::UseCount<'_> {
                // SAFETY: The member is valid as long as the object.
                unsafe { $crate::core::object::UseCount::new(&raw mut (*self.as_raw()).usecnt) }
            }
        }
    };
}
pub(crate) use counted;

macro_rules! tracked {
    ($view:ty) => {
        // SAFETY: The structure has one such member, which `DriverObject::begin_entry` begins.
        unsafe impl $crate::core::object::Tracked for $view {
            #[inline]
            fn res(&self) -> &$crate::core::RestrackEntry {
                // SAFETY: The member is valid as long as the object; a view is a transparent wrapper.
                unsafe { &*(&raw mut (*self.as_raw()).res).cast() }
            }
        }
    };
}
pub(crate) use tracked;

/// The method of [`DriverObject`] for an object with a resource tracking entry; `kind` is of `enum rdma_restrack_type`.
macro_rules! begin_entry {
    ($kind:ident) => {
        #[inline]
        fn begin_entry(object: &mut Self::C) {
            // SAFETY: The object is new, and borrowed exclusively.
            unsafe { rdma_bindings::restrack_begin(&mut object.res) };
            object.res.type_ = rdma_bindings::$kind;
        }
    };
}
pub(crate) use begin_entry;

/// Implements [`DriverObject`] for an object whose size is a member of `struct ib_device_ops`. For one with a resource tracking
/// entry, the entry's type comes last.
macro_rules! driver_object {
    ($view:ty, $size:ident $(, $option:ident)* $(; $kind:ident)?) => {
        // SAFETY: The structure consists of pointers and numbers, and of locks that are initialised when the object is made.
        unsafe impl $crate::core::object::DriverObject for $view {
            #[inline]
            fn size(ops: &rdma_bindings::ib_device_ops) -> usize {
                ops.$size
            }
            $( const $option: bool = true; )*
            $( $crate::core::object::begin_entry!($kind); )?
        }
    };
}
pub(crate) use driver_object;
