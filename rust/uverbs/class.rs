// SPDX-License-Identifier: GPL-2.0

//! Classes of user-space objects (`UVERBS_OBJECT_*`): the object ID, the memory of a `struct ib_uobject`, and the driver's
//! object.
//!
//! C headers: `include/rdma/uverbs_types.h`, `include/uapi/rdma/ib_user_ioctl_cmds.h`.

use core::ops::Deref;

use rdma::{
    core::{
        uobject::RemoveReason, Ah, Counters, Dm, Dmah, FlowAction, Mr, Mw, Pd, RwqIndTable, Uobject,
    },
    MaySleep,
};
use rdma_bindings as bindings;

/// A class of objects.
///
/// # Safety
///
/// The objects whose ID is [`ID`](Self::ID) are described by an [`IdrType`](crate::table::IdrType) or an
/// [`FdType`](crate::table::FdType) of this class. [`Memory`](Self::Memory) begins with the `ib_uobject`, is transparent or
/// `repr(C)`, and may be zero. For a class with a [`View`](kernel_ext::entry::View): the `object` of its objects is null or
/// `Self`.
pub unsafe trait Class: Sized {
    /// The object ID, `UVERBS_OBJECT_*`.
    const ID: u16;

    /// The memory of each object (`obj_size`). It is zeroed at first, and freed without being dropped.
    type Memory: Sync;

    /// Whether the objects have a file descriptor ([`FdType`](crate::table::FdType)), or a number
    /// ([`IdrType`](crate::table::IdrType)).
    const IS_FILE: bool = false;

    /// Ends the use of an object with a file descriptor when it is destroyed: called once, before the function of its
    /// [`FdType`](crate::table::FdType).
    fn detach(_object: Destroying<'_, Self>, _why: RemoveReason, _sleep: &MaySleep) {}
}

/// An object that is being destroyed: the argument of `destroy_object`.
///
/// # Invariants
///
/// The object is of the class `T` and complete, and only the holder of this value uses it.
pub struct Destroying<'a, T: Class>(&'a T::Memory);

impl<'a, T: Class> Destroying<'a, T> {
    /// The object of a call of `destroy_object`.
    ///
    /// # Safety
    ///
    /// The object is of the class `T` and complete, and this thread alone uses it during `'a`.
    pub(crate) unsafe fn new(memory: &'a T::Memory) -> Self {
        // INVARIANT: By the safety requirements.
        Self(memory)
    }

    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &'a Uobject {
        // SAFETY: The memory of each class begins with the object.
        unsafe { &*core::ptr::from_ref(self.0).cast() }
    }
}

impl<T: Class> Deref for Destroying<'_, T> {
    type Target = T::Memory;

    #[inline]
    fn deref(&self) -> &T::Memory {
        self.0
    }
}

/// The classes whose objects have no more memory than `struct ib_uobject`.
macro_rules! classes {
    ($($view:ty: $id:ident;)*) => {$(
        // SAFETY: ib_uverbs has a table entry of the class with this ID; a `Uobject` is a transparent `ib_uobject`.
        unsafe impl Class for $view {
            const ID: u16 = bindings::$id as u16;
            type Memory = Uobject;
        }
    )*};
}

classes! {
    Pd: UVERBS_OBJECT_PD;
    Ah: UVERBS_OBJECT_AH;
    Mr: UVERBS_OBJECT_MR;
    Mw: UVERBS_OBJECT_MW;
    RwqIndTable: UVERBS_OBJECT_RWQ_IND_TBL;
    FlowAction: UVERBS_OBJECT_FLOW_ACTION;
    Dm: UVERBS_OBJECT_DM;
    Counters: UVERBS_OBJECT_COUNTERS;
    Dmah: UVERBS_OBJECT_DMAH;
}
