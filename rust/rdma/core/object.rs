// SPDX-License-Identifier: GPL-2.0

//! Ownership of the objects that the core allocates and a driver creates and destroys.
//!
//! | type | is |
//! |---|---|
//! | [`Fresh<T>`] | memory of an object that no driver knows, of the size that the driver named; dropping it frees it |
//! | [`Owned<T>`] | an object that the driver has created, as its owner has it; dropping it leaves it there |
//! | `&T` | an object that somebody else owns and that stays during a call |
//!
//! A create method of a driver turns a `Fresh<T>` into an `Owned<T>`, and a destroy method does the reverse; where they fail,
//! the caller gets back what it gave ([`Failed`]). So nothing is freed that a driver still knows, and nothing is used after
//! it was freed.
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
    /// What a driver gets of a command of user space. The core hands it on.
    pub struct UdataView(ib_udata);
}

impl UdataView {
    /// What drivers take: null for a caller in the kernel.
    #[inline]
    pub(crate) fn pointer(udata: Option<&Self>) -> *mut ib_udata {
        udata.map_or(core::ptr::null_mut(), Self::as_raw)
    }
}

/// An object whose memory the core allocates, at the size that the driver names.
///
/// # Safety
///
/// Zeros are a valid value of the structure, and so is any value of its members of C's types.
pub unsafe trait DriverObject: View {
    /// The size that a driver has named; it begins with the core's part. 0 if it has named none.
    fn size(ops: &ib_device_ops) -> usize;

    /// Whether the driver may say on which NUMA node it wants the object.
    const NUMA: bool = false;

    /// Whether RCU readers may have the object when it is destroyed. They may read all of it but the first two words.
    const RCU: bool = false;
}

/// An object that resource tracking knows.
pub trait Tracked {
    /// What resource tracking keeps in it.
    fn res(&self) -> &RestrackEntry;
}

/// Memory of an object that no driver knows.
///
/// # Invariants
///
/// The memory is from `Kmalloc`, ours alone, and begins with an initialised `T::C`.
pub struct Fresh<T: DriverObject>(NonNull<T>);

impl<T: DriverObject> Fresh<T> {
    /// Allocates zeroed memory; without `sleep`, from the reserves. The members that a driver relies on are to be set before the
    /// memory is handed out.
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

    /// Allocates zeroed memory for the core's part alone.
    pub(crate) fn alloc_core(_sleep: &MaySleep) -> Result<Self> {
        Self::alloc_size(0, GFP_KERNEL, NumaNode::NO_NODE)
    }

    fn alloc_size(size: usize, flags: kernel::alloc::Flags, node: NumaNode) -> Result<Self> {
        let size = size.max(size_of::<T::C>());
        let layout = core::alloc::Layout::from_size_align(size, align_of::<u64>());
        let layout = layout.map_err(|_| EOVERFLOW)?;
        const { assert!(align_of::<T::C>() <= align_of::<u64>()) };
        let memory = Kmalloc::alloc(layout, flags | __GFP_ZERO, node)?;
        // INVARIANT: It was just allocated; zeros are a valid value.
        Ok(Self(memory.cast()))
    }

    /// The core's part, to be filled in.
    #[inline]
    pub(crate) fn raw(&mut self) -> &mut T::C {
        // SAFETY: By the type invariants it is ours alone.
        unsafe { &mut *self.0.as_ptr().cast() }
    }

    /// Calls a create method of the driver, which may fail with an errno.
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

    #[inline]
    fn as_ptr(&self) -> *mut T::C {
        self.0.as_ptr().cast()
    }
}

impl<T: DriverObject> Deref for Fresh<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants; a view is a transparent wrapper.
        unsafe { self.0.as_ref() }
    }
}

impl<T: DriverObject> Drop for Fresh<T> {
    fn drop(&mut self) {
        if T::RCU {
            const { assert!(!T::RCU || size_of::<T::C>() >= size_of::<bindings::callback_head>()) };
            // SAFETY: By the type invariants; there is room for the two words that RCU has for itself until it frees the memory.
            unsafe { bindings::rdma_object_free_rcu(self.0.as_ptr().cast()) };
            return;
        }
        // SAFETY: By the type invariants; `kfree` does not look at the size.
        unsafe { Kmalloc::free(self.0.cast(), core::alloc::Layout::new::<T::C>()) };
    }
}

/// An object that its driver has created, as its owner has it: `struct ib_x *`, to be destroyed by the owner.
///
/// # Invariants
///
/// The object is there, and nobody else destroys it.
pub struct Owned<T: View>(NonNull<T>);

// SAFETY: Objects may be used from any thread.
unsafe impl<T: View + Send> Send for Owned<T> {}

impl<T: View> Owned<T> {
    /// Takes an object over.
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
    /// Calls a destroy method of the driver, which may fail with an errno.
    ///
    /// # Safety
    ///
    /// When `destroy` returns 0 the driver does not know the object any more, and has left the core's part as it was.
    #[inline]
    pub(crate) unsafe fn destroy(self, destroy: impl FnOnce(*mut T::C) -> c_int) -> Destroyed<T> {
        match to_result(destroy(self.0.as_ptr().cast())) {
            // INVARIANT: The memory was the core's from the beginning, and by the safety requirements it is ours alone.
            Ok(()) => Ok(Fresh(self.0)),
            Err(error) => Err(Failed {
                object: self,
                error,
            }),
        }
    }

    /// Turns an object that no driver knows back into memory.
    ///
    /// # Safety
    ///
    /// The object was made by [`Fresh::core_only`], and nobody has a pointer to it any more.
    #[inline]
    pub(crate) unsafe fn into_memory(self) -> Fresh<T> {
        // INVARIANT: By the safety requirements.
        Fresh(self.0)
    }
}

impl<T: DriverObject> Fresh<T> {
    /// Makes the memory an object that the core alone knows.
    #[inline]
    pub(crate) fn core_only(self) -> Owned<T> {
        // INVARIANT: There is no driver that would have to create it.
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

// SAFETY: An owner passes its object.
unsafe impl<T: View> FromC for Owned<T> {
    type Raw = *mut T::C;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is an object, and the header says that the function takes it over.
        Self(unsafe { NonNull::new_unchecked(raw) }.cast())
    }
}

/// What comes back from a method that failed: what it was given, and why.
pub struct Failed<O> {
    /// What the method was given.
    pub object: O,
    /// Why it failed.
    pub error: Error,
}

impl<O> Failed<O> {
    /// Leaves the object as it is.
    pub fn keep(self) -> Error {
        self.error
    }
}

/// What a create method returns.
pub type Created<T> = Result<Owned<T>, Failed<Fresh<T>>>;

/// What a destroy method returns.
pub type Destroyed<T> = Result<Fresh<T>, Failed<Owned<T>>>;

/// What a C entry point returns of an object that it has made: the object, or an errno in the pointer (`ERR_PTR`).
pub struct Made<T: View>(pub Result<Owned<T>>);

impl<T: View> IntoC for Made<T> {
    type Raw = *mut T::C;

    #[inline]
    fn into_c(self) -> Self::Raw {
        self.0.map_or_else(|error| error.to_ptr(), Owned::into_raw)
    }
}

/// How often an object is used by others: its member `usecnt`.
#[derive(Clone, Copy)]
pub struct UseCount<'a>(&'a AtomicI32);

impl<'a> UseCount<'a> {
    /// The count of an object.
    ///
    /// # Safety
    ///
    /// `count` is there for `'a`.
    #[inline]
    pub unsafe fn new(count: *mut rdma_bindings::atomic_t) -> Self {
        // SAFETY: By the safety requirements; C uses it atomically too.
        Self(unsafe { AtomicI32::from_ptr(count.cast()) })
    }

    /// One more user.
    #[inline]
    pub fn inc(self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One user less.
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

/// The counts of what an object uses, for when the object is gone and does not use it any more.
///
/// # Invariants
///
/// Each is null, or the count of an object that stays until it is counted down: it counts the object that went.
pub(super) struct ParentCounts<const N: usize>([*mut rdma_bindings::atomic_t; N]);

impl<const N: usize> ParentCounts<N> {
    /// What an object uses.
    ///
    /// # Safety
    ///
    /// Each count is null, or that of an object which counts this one as a user.
    pub(super) unsafe fn new(counts: [*mut rdma_bindings::atomic_t; N]) -> Self {
        // INVARIANT: By the safety requirements.
        Self(counts)
    }

    /// Counts all down.
    ///
    /// # Safety
    ///
    /// The object that was counted is gone.
    pub(super) unsafe fn release(self) {
        for count in self.0.into_iter().filter(|count| !count.is_null()) {
            // SAFETY: By the type invariants the count is there, and by the safety requirements the object that it counts has gone.
            unsafe { UseCount::new(count).dec() };
        }
    }
}

/// Accessors of members that are constant as long as the object is there, and of objects that are there as long.
///
/// `name: Type` is an object, `name?: Type` one that may be absent.
macro_rules! links {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> &$ty {
            // SAFETY: The member is set when the object is made, and the other one stays as long as this one.
            unsafe { &*(*self.as_raw()).$($member).+.cast() }
        }
    )*};
}
pub(crate) use links;

/// As [`links`], for what may be absent.
macro_rules! optional_links {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> Option<&$ty> {
            // SAFETY: The member is set when the object is made, and the other one stays as long as this one.
            unsafe { (*self.as_raw()).$($member).+.cast::<$ty>().as_ref() }
        }
    )*};
}
pub(crate) use optional_links;

/// Members that are constant as long as the object is there.
macro_rules! constants {
    ($($(#[$attr:meta])* $name:ident: $ty:ty = $($member:ident).+;)*) => {$(
        $(#[$attr])*
        #[inline]
        pub fn $name(&self) -> $ty {
            // SAFETY: The member is set when the object is made.
            unsafe { (&raw const (*self.as_raw()).$($member).+).read() }
        }
    )*};
}
pub(crate) use constants;

/// The use count and what resource tracking keeps.
macro_rules! counted {
    ($view:ty) => {
        impl $view {
            /// How often others use it.
            #[inline]
            pub fn uses(&self) -> $crate::core::object::UseCount<'_> {
                // SAFETY: The member is there as long as the object.
                unsafe { $crate::core::object::UseCount::new(&raw mut (*self.as_raw()).usecnt) }
            }
        }
    };
}
pub(crate) use counted;

macro_rules! tracked {
    ($view:ty) => {
        impl $crate::core::object::Tracked for $view {
            #[inline]
            fn res(&self) -> &$crate::core::RestrackEntry {
                // SAFETY: The member is there as long as the object; a view is a transparent wrapper.
                unsafe { &*(&raw mut (*self.as_raw()).res).cast() }
            }
        }
    };
}
pub(crate) use tracked;

/// An object whose memory the core allocates, at the size that a member of the methods tells.
macro_rules! driver_object {
    ($view:ty, $size:ident $(, $option:ident)*) => {
        // SAFETY: The structure has pointers and numbers alone, and locks that are zero or set up when it is made.
        unsafe impl $crate::core::object::DriverObject for $view {
            #[inline]
            fn size(ops: &rdma_bindings::ib_device_ops) -> usize {
                ops.$size
            }
            $( const $option: bool = true; )*
        }
    };
}
pub(crate) use driver_object;
