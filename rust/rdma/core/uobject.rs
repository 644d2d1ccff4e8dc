// SPDX-License-Identifier: GPL-2.0

//! Objects of user space, of any type: `struct ib_uobject`.
//!
//! An object is locked by its use count: shared by any number of commands, or for one alone. Its members change only under
//! the exclusive lock; what others may read meanwhile is read and written whole.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/uverbs_types.h`, `include/rdma/uverbs_std_types.h`.

use core::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicI32, AtomicPtr, Ordering},
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
    /// A kind of objects, as a device has it: `struct uverbs_api_object`.
    pub struct ApiObject(bindings::uverbs_api_object);
}

impl ApiObject {
    /// Its number: `UVERBS_OBJECT_*`, or a driver's with `UVERBS_ID_NS_SHIFT`'s bit.
    #[inline]
    pub fn id(&self) -> u32 {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).id }
    }

    /// How its objects are described; null when the driver has gone.
    #[inline]
    pub fn type_attrs(&self) -> *const bindings::uverbs_obj_type {
        // SAFETY: The member is a pointer that is cleared once.
        let member = unsafe { &raw mut (*self.as_raw()).type_attrs };
        // SAFETY: As above.
        unsafe { AtomicPtr::from_ptr(member.cast::<*mut bindings::uverbs_obj_type>()) }
            .load(Ordering::Acquire)
    }

    /// Which class its objects are of: by number or by file descriptor.
    #[inline]
    pub fn type_class(&self) -> *const bindings::uverbs_obj_type_class {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).type_class }
    }
}

/// Why an object is destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum RemoveReason {
    /// A command says so. It may fail, and then the object stays.
    Destroy = bindings::RDMA_REMOVE_DESTROY,
    /// The file is closed.
    Close = bindings::RDMA_REMOVE_CLOSE,
    /// The device goes.
    DriverRemove = bindings::RDMA_REMOVE_DRIVER_REMOVE,
    /// It was not made completely.
    Abort = bindings::RDMA_REMOVE_ABORT,
    /// The driver was not able to destroy it, and is not asked any more.
    DriverFailure = bindings::RDMA_REMOVE_DRIVER_FAILURE,
}

impl RemoveReason {
    /// From C's `enum rdma_remove_reason`; what nobody knows is a close.
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

// SAFETY: The enumeration of C.
unsafe impl kernel_ext::entry::FromC for RemoveReason {
    type Raw = bindings::rdma_remove_reason;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self::from_raw(raw)
    }
}

/// How an object is locked while somebody has looked it up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookupMode {
    /// Shared with others that read.
    Read,
    /// For one alone.
    Write,
    /// Not yet: it is going to be destroyed, and locked for that.
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

// SAFETY: The enumeration of C.
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

/// The use count of an object that one has for oneself.
const EXCLUSIVE: i32 = -1;

impl Uobject {
    /// The file that it belongs to.
    #[inline]
    pub fn file(&self) -> &UverbsFile {
        // SAFETY: The member is constant, and the file stays as long as its objects.
        unsafe { &*(*self.as_raw()).ufile.cast() }
    }

    /// The kind of object.
    #[inline]
    pub fn api_object(&self) -> &ApiObject {
        // SAFETY: The member is constant, and what it refers to stays as long as the file.
        unsafe { &*(*self.as_raw()).uapi_object.cast() }
    }

    fn id_member(&self) -> &AtomicI32 {
        // SAFETY: The member is a number, and is there as long as the object.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.as_raw()).id) }
    }

    /// Its number in the file; for one that is not committed yet and is known by a file descriptor: that.
    #[inline]
    pub fn id(&self) -> u32 {
        self.id_member().load(Ordering::Relaxed) as u32
    }

    /// Sets its number. For ib_uverbs_support.
    #[inline]
    pub fn set_id(&self, id: u32) {
        self.id_member().store(id as i32, Ordering::Relaxed);
    }

    /// What user space calls it in completions and events.
    #[inline]
    pub fn user_handle(&self) -> u64 {
        // SAFETY: The member is set while the object is made.
        unsafe { (*self.as_raw()).user_handle }
    }

    /// Sets what user space calls it. For whoever makes the object.
    #[inline]
    pub fn set_user_handle(&self, handle: u64) {
        // SAFETY: Any value is valid, and it is written whole.
        unsafe { (&raw mut (*self.as_raw()).user_handle).write_volatile(handle) };
    }

    fn context_member(&self) -> &AtomicPtr<bindings::ib_ucontext> {
        // SAFETY: The member is a pointer.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).context) }
    }

    /// The context that it is in; none when it was destroyed.
    #[inline]
    pub fn context(&self) -> Option<&Ucontext> {
        let context = self.context_member().load(Ordering::Relaxed);
        // SAFETY: The context stays as long as an object that is not destroyed; a view is a transparent wrapper.
        unsafe { context.cast::<Ucontext>().as_ref() }
    }

    /// Says that it was destroyed. For ib_uverbs_support.
    #[inline]
    pub fn clear_context(&self) {
        self.context_member()
            .store(ptr::null_mut(), Ordering::Relaxed);
    }

    fn object_member(&self) -> &AtomicPtr<c_void> {
        // SAFETY: The member is a pointer.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).object) }
    }

    /// What the kernel has for it: the driver's object, or the file; null if it was destroyed.
    #[inline]
    pub fn object(&self) -> *mut c_void {
        self.object_member().load(Ordering::Relaxed)
    }

    /// Sets what the kernel has for it. For whoever makes or destroys it: who reads it takes it as what the kind says.
    ///
    /// # Safety
    ///
    /// It is null, or what the kind says, and stays until the object is destroyed.
    #[inline]
    pub unsafe fn set_object(&self, object: *mut c_void) {
        self.object_member().store(object, Ordering::Relaxed);
    }

    /// What it has charged.
    #[inline]
    pub fn cgroup(&self) -> &CgroupObject {
        // SAFETY: The member is there as long as the object; a view is a transparent wrapper.
        unsafe { &*(&raw mut (*self.as_raw()).cg_obj).cast() }
    }

    fn uses(&self) -> &AtomicI32 {
        // SAFETY: The member is there as long as the object; C uses it atomically too.
        unsafe { AtomicI32::from_ptr((&raw mut (*self.as_raw()).usecnt).cast()) }
    }

    /// Locks it, without waiting. The lock for [`LookupMode::Destroy`] is none.
    ///
    /// # Errors
    ///
    /// `EBUSY` if somebody has it who does not share.
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

    /// Unlocks it.
    ///
    /// # Safety
    ///
    /// The caller has it locked so, and gives that up.
    pub unsafe fn unlock(&self, mode: LookupMode) {
        match mode {
            LookupMode::Read => {
                self.uses().fetch_sub(1, Ordering::Release);
            }
            LookupMode::Write => self.uses().store(0, Ordering::Release),
            LookupMode::Destroy => {}
        }
    }

    /// Keeps its memory.
    #[inline]
    pub fn hold(&self) -> ARef<Self> {
        self.into()
    }

    /// Whether its file lists it: it is committed, and not destroyed.
    pub fn is_listed(&self) -> bool {
        // SAFETY: The member is a list; the pointer is read once.
        unsafe {
            let list = &raw mut (*self.as_raw()).list;
            (&raw const (*list).next).read_volatile() != list
        }
    }
}

// SAFETY: The memory is freed with the last reference, after RCU readers have left.
unsafe impl AlwaysRefCounted for Uobject {
    fn inc_ref(&self) {
        // SAFETY: The object is there.
        unsafe { bindings::refcount_inc(&raw mut (*self.as_raw()).ref_.refcount) };
    }

    unsafe fn dec_ref(object: NonNull<Self>) {
        let raw = object.as_ptr().cast::<bindings::ib_uobject>();
        // SAFETY: By the safety requirements; with the last reference nobody finds the object any more.
        unsafe {
            if bindings::refcount_dec_and_test(&raw mut (*raw).ref_.refcount) {
                bindings::ib_uobject_free_rcu(raw);
            }
        }
    }
}

impl UverbsFile {
    /// The kinds of objects that the file's device has.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is none of the number.
    pub fn api_object(&self, id: u16) -> Result<&ApiObject> {
        // SAFETY: The tree stays as long as the file; its objects are not taken out.
        let object = unsafe {
            let api = (*(*self.as_raw()).device).uapi;
            let key = bindings::uapi_key_obj(id.into());
            bindings::radix_tree_lookup(&raw const (*api).radix, key as usize)
        };
        let object = NonNull::new(object.cast::<ApiObject>()).ok_or(ENOENT)?;
        // SAFETY: As above; a view is a transparent wrapper.
        Ok(unsafe { object.as_ref() })
    }
}

impl AttrBundle {
    /// The file that the command came from.
    #[inline]
    pub fn file(&self) -> &UverbsFile {
        // SAFETY: The member is constant, and the file stays during the command.
        unsafe {
            &*(*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .ufile
                .cast()
        }
    }

    /// The context that the command is in, if that is known yet.
    #[inline]
    pub fn context(&self) -> Option<&Ucontext> {
        // SAFETY: The command is this thread's, and the context stays during it.
        unsafe {
            (*self.as_raw())
                .__bindgen_anon_1
                .__bindgen_anon_1
                .context
                .cast::<Ucontext>()
                .as_ref()
        }
    }

    /// Says in which context the command is.
    #[inline]
    pub fn set_context(&self, context: Option<&Ucontext>) {
        let context = context.map_or(ptr::null_mut(), Ucontext::as_raw);
        // SAFETY: The command is this thread's.
        unsafe { (*self.as_raw()).__bindgen_anon_1.__bindgen_anon_1.context = context };
    }
}
