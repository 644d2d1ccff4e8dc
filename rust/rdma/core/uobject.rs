// SPDX-License-Identifier: GPL-2.0

//! User objects of any type: `struct ib_uobject`.
//!
//! The use count of an object is its lock, shared or exclusive. Members change only under the exclusive lock; those that
//! are read without it are accessed by single loads and stores.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

use core::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering},
};

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::aref::{ARef, AlwaysRefCounted},
};
use kernel_ext::entry::view_of;
use rdma_bindings as bindings;

use super::{cgroup::CgroupObject, command::UverbsFile, AttrBundle, Ucontext, Uobject};

view_of! {
    /// An object type of a device: `struct uverbs_api_object`.
    pub struct ApiObject(bindings::uverbs_api_object);
}

impl ApiObject {
    /// The number of the type: `UVERBS_OBJECT_*`, or a driver's, with the bit `1 << UVERBS_ID_NS_SHIFT`.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).id }
    }

    /// The description of the type; null after the driver was removed.
    #[inline]
    pub fn type_attrs(&self) -> *const bindings::uverbs_obj_type {
        // SAFETY: The member is a pointer that is valid as long as `self`, and that C and Rust access atomically.
        let member = unsafe { &raw mut (*self.as_raw()).type_attrs };
        // SAFETY: The member is a pointer that is valid as long as `self`, and that C and Rust access atomically.
        unsafe { AtomicPtr::from_ptr(member.cast::<*mut bindings::uverbs_obj_type>()) }
            .load(Ordering::Acquire)
    }

    /// The class of the type: objects with an IDR number, or with a file descriptor.
    #[inline]
    pub fn type_class(&self) -> *const bindings::uverbs_obj_type_class {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).type_class }
    }
}

/// The user object that an object of the kernel is made for.
///
/// # Invariants
///
/// The user object stays until the object of the kernel is destroyed, and is not destroyed within `'a`.
#[derive(Clone, Copy)]
pub struct ObjectLink<'a>(&'a Uobject);

impl<'a> ObjectLink<'a> {
    /// The link to an object.
    ///
    /// # Safety
    ///
    /// The user object stays until the object of the kernel is destroyed that the value is used for, and is not destroyed
    /// within `'a`.
    #[inline]
    pub unsafe fn new(object: &'a Uobject) -> Self {
        // INVARIANT: By the safety requirements.
        Self(object)
    }

    /// C's pointer.
    #[inline]
    pub fn as_raw(self) -> *mut bindings::ib_uobject {
        self.0.as_raw()
    }

    /// The context of the object.
    #[inline]
    pub fn context(self) -> Option<&'a Ucontext> {
        // SAFETY: By the type invariants the user object is not destroyed within `'a`.
        unsafe { self.0.context() }
    }
}

/// Why an object is destroyed: `enum rdma_remove_reason`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RemoveReason {
    /// A command destroys it. The destruction may fail, and then the object stays.
    Destroy = bindings::RDMA_REMOVE_DESTROY,
    /// The file is closed.
    Close = bindings::RDMA_REMOVE_CLOSE,
    /// The device is removed.
    DriverRemove = bindings::RDMA_REMOVE_DRIVER_REMOVE,
    /// Its creation has failed.
    Abort = bindings::RDMA_REMOVE_ABORT,
    /// The driver has failed to destroy it, and is not called again.
    DriverFailure = bindings::RDMA_REMOVE_DRIVER_FAILURE,
}

impl RemoveReason {
    /// From C's `enum rdma_remove_reason`; an unknown value is a close.
    pub fn from_raw(raw: bindings::rdma_remove_reason) -> Self {
        match raw {
            bindings::RDMA_REMOVE_DESTROY => Self::Destroy,
            bindings::RDMA_REMOVE_DRIVER_REMOVE => Self::DriverRemove,
            bindings::RDMA_REMOVE_ABORT => Self::Abort,
            bindings::RDMA_REMOVE_DRIVER_FAILURE => Self::DriverFailure,
            _ => Self::Close,
        }
    }
}

// SAFETY: `Raw` is the enumeration in the header.
unsafe impl kernel_ext::entry::FromC for RemoveReason {
    type Raw = bindings::rdma_remove_reason;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self::from_raw(raw)
    }
}

/// How a lookup locks an object: `enum rdma_lookup_mode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupMode {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Not locked: the destruction of the object locks it later.
    Destroy,
}

impl LookupMode {
    /// C's `enum rdma_lookup_mode`.
    #[inline]
    pub fn as_raw(self) -> bindings::rdma_lookup_mode {
        match self {
            Self::Read => bindings::UVERBS_LOOKUP_READ,
            Self::Write => bindings::UVERBS_LOOKUP_WRITE,
            Self::Destroy => bindings::UVERBS_LOOKUP_DESTROY,
        }
    }
}

// SAFETY: `Raw` is the enumeration in the header.
unsafe impl kernel_ext::entry::FromC for LookupMode {
    type Raw = bindings::rdma_lookup_mode;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        match raw {
            bindings::UVERBS_LOOKUP_READ => Self::Read,
            bindings::UVERBS_LOOKUP_WRITE => Self::Write,
            _ => Self::Destroy,
        }
    }
}

/// The use count of an object that is locked exclusively.
const EXCLUSIVE: i32 = -1;

impl Uobject {
    /// The open file that the object belongs to.
    #[inline]
    pub fn file(&self) -> &UverbsFile {
        // SAFETY: The member is constant, and an object holds a reference to its file.
        unsafe { &*(*self.as_raw()).ufile.cast() }
    }

    /// The type of the object.
    #[inline]
    pub fn api_object(&self) -> &ApiObject {
        // SAFETY: The member is constant, and its target is valid as long as the file.
        unsafe { &*(*self.as_raw()).uapi_object.cast() }
    }

    fn id_member(&self) -> &AtomicI32 {
        // SAFETY: The member is an aligned number, which is valid as long as the object.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.as_raw()).id) }
    }

    /// The number of the object in its file. For a file descriptor object that is not committed yet, the descriptor.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id_member().load(Ordering::Relaxed) as u32
    }

    /// Sets the number, by which user space names the object in responses; tables are not changed.
    #[inline]
    pub fn set_id(&self, id: u32) {
        self.id_member().store(id as i32, Ordering::Relaxed);
    }

    fn user_handle_member(&self) -> &AtomicU64 {
        // SAFETY: The member is an aligned number, which is valid as long as the object.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.as_raw()).user_handle) }
    }

    /// The handle by which user space identifies the object in completions and events.
    #[inline]
    pub fn user_handle(&self) -> u64 {
        self.user_handle_member().load(Ordering::Relaxed)
    }

    /// Sets the handle of user space. Completions and events name the object by it from now on.
    #[inline]
    pub fn set_user_handle(&self, handle: u64) {
        self.user_handle_member().store(handle, Ordering::Relaxed);
    }

    fn context_member(&self) -> &AtomicPtr<bindings::ib_ucontext> {
        // SAFETY: The member is a pointer that is valid as long as `self`, and that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).context) }
    }

    /// Whether the object has a context: it was not destroyed.
    #[inline]
    pub fn has_context(&self) -> bool {
        !self.context_member().load(Ordering::Relaxed).is_null()
    }

    /// The context of the object; `None` after it was destroyed.
    ///
    /// # Safety
    ///
    /// The object is not destroyed as long as the result is used: it is new, or locked.
    #[inline]
    pub unsafe fn context(&self) -> Option<&Ucontext> {
        let context = self.context_member().load(Ordering::Relaxed);
        // SAFETY: A context is destroyed after its objects. By the safety requirements this one is not destroyed meanwhile; a
        // view is a transparent wrapper.
        unsafe { context.cast::<Ucontext>().as_ref() }
    }

    /// Marks the object as destroyed: it has no context from now on. The context itself stays.
    #[inline]
    pub fn clear_context(&self) {
        self.context_member()
            .store(ptr::null_mut(), Ordering::Relaxed);
    }

    fn object_member(&self) -> &AtomicPtr<c_void> {
        // SAFETY: The member is a pointer that is valid as long as `self`, and that is accessed atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).object) }
    }

    /// The kernel's object behind it: the driver's object, or the file; null after it was destroyed.
    #[inline]
    pub fn object(&self) -> *mut c_void {
        self.object_member().load(Ordering::Relaxed)
    }

    /// Sets the kernel's object. Called while the object is being created or destroyed.
    ///
    /// # Safety
    ///
    /// `object` is null, or of the C type that the object's type demands, and is valid until the user object is destroyed.
    #[inline]
    pub unsafe fn set_object(&self, object: *mut c_void) {
        self.object_member().store(object, Ordering::Relaxed);
    }

    /// What the object has charged to the rdma cgroup.
    #[inline]
    pub fn cgroup(&self) -> &CgroupObject {
        // SAFETY: The member is valid as long as the object; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.as_raw()).cg_obj).cast() }
    }

    fn uses(&self) -> &AtomicI32 {
        // SAFETY: The member is valid as long as the object; C accesses it atomically too.
        unsafe { AtomicI32::from_ptr((&raw mut (*self.as_raw()).usecnt).cast()) }
    }

    /// Locks the object without waiting. [`LookupMode::Destroy`] takes no lock.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a conflicting lock is held.
    pub fn try_lock(&self, mode: LookupMode) -> Result {
        let locked = match mode {
            LookupMode::Read => self
                .uses()
                .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |uses| {
                    (uses != EXCLUSIVE).then_some(uses.wrapping_add(1))
                })
                .is_ok(),
            LookupMode::Write => self
                .uses()
                .compare_exchange(0, EXCLUSIVE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok(),
            LookupMode::Destroy => true,
        };
        locked.then_some(()).ok_or(EBUSY)
    }

    /// Unlocks the object.
    ///
    /// # Safety
    ///
    /// The caller holds the lock in this mode, and gives it up.
    pub unsafe fn unlock(&self, mode: LookupMode) {
        match mode {
            LookupMode::Read => {
                self.uses().fetch_sub(1, Ordering::Release);
            }
            LookupMode::Write => self.uses().store(0, Ordering::Release),
            LookupMode::Destroy => {}
        }
    }

    /// Takes a reference that keeps the memory.
    #[inline]
    pub fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// Whether the object is in its file's list: it is committed, and not destroyed.
    pub fn is_listed(&self) -> bool {
        // SAFETY: The member is an initialised list head; a single load reads its pointer.
        unsafe {
            let list = &raw mut (*self.as_raw()).list;
            (&raw const (*list).next).read_volatile() != list
        }
    }
}

// SAFETY: The memory is freed with the last reference, after RCU readers have left.
unsafe impl AlwaysRefCounted for Uobject {
    fn inc_ref(&self) {
        // SAFETY: `self` is a valid object, and so has a reference.
        unsafe { bindings::refcount_inc(&raw mut (*self.as_raw()).ref_.refcount) };
    }

    unsafe fn dec_ref(object: NonNull<Self>) {
        let raw = object.as_ptr().cast::<bindings::ib_uobject>();
        // SAFETY: By the safety requirements a reference is given up. With the last one the object is in no table any
        // more, and the memory is freed after a grace period.
        unsafe {
            if bindings::refcount_dec_and_test(&raw mut (*raw).ref_.refcount) {
                bindings::ib_uobject_free_rcu(raw);
            }
        }
    }
}

impl UverbsFile {
    /// Looks up an object type of the file's device.
    ///
    /// # Errors
    ///
    /// `ENOENT` for an unknown number.
    pub fn api_object(&self, id: u16) -> Result<&ApiObject> {
        // SAFETY: The tree is valid as long as the file, and no entry is removed from it before.
        let object = unsafe {
            let api = (*(*self.as_raw()).device).uapi;
            let key = bindings::uapi_key_obj(id.into());
            bindings::radix_tree_lookup(&raw const (*api).radix, key as usize)
        };
        let object = NonNull::new(object.cast::<ApiObject>()).ok_or(ENOENT)?;
        // SAFETY: The tree is valid as long as the file, and no entry is removed from it before; a view is a transparent
        // wrapper.
        Ok(unsafe { object.as_ref() })
    }
}

impl AttrBundle {
    /// The file that the command was issued on.
    #[inline]
    pub fn file(&self) -> &UverbsFile {
        // SAFETY: The member is constant, and the file is open during the command.
        unsafe {
            &*(*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .ufile
                .cast()
        }
    }

    /// The context of the command, if it is known yet.
    #[inline]
    pub fn context(&self) -> Option<&Ucontext> {
        // SAFETY: Only this thread uses the command, by the type `AttrBundle`. By the contract of `set_context` the context
        // is valid as long as the result.
        unsafe {
            (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .context
                .cast::<Ucontext>()
                .as_ref()
        }
    }

    /// Sets the context of the command.
    ///
    /// # Safety
    ///
    /// The context stays as long as the objects that are begun in the command before its context is set anew, and as long as
    /// the references to the context that [`Self::context`] returns in the meantime.
    #[inline]
    pub unsafe fn set_context(&self, context: Option<&Ucontext>) {
        let context = context.map_or(ptr::null_mut(), Ucontext::as_raw);
        // SAFETY: Only this thread uses the command, by the type `AttrBundle`.
        unsafe { (*self.as_raw()).__bindgen_anon_1.__bindgen_anon_1.context = context };
    }
}
