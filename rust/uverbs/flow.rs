// SPDX-License-Identifier: GPL-2.0

//! Flow steering rules of user space (`struct ib_uflow_object`), and the actions and counters that a rule uses
//! (`struct ib_uflow_resources`, which C drivers fill in too).
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use core::{
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::prelude::*;
use kernel_ext::entry::{view_of, FromC, IntoC};
use rdma::{
    core::{
        object::Owned, uobject::RemoveReason, AttrBundle, Counters, Flow, FlowAction, Qp, Uobject,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_uflow_resources};

use crate::{
    class::{Class, Destroying},
    destroy::{self, driver_object},
    new::NewObject,
};

view_of! {
    /// The actions and counters that a rule uses, with a capacity. One thread at a time uses it.
    pub struct FlowResources(ib_uflow_resources);
}

/// An object that a rule uses.
#[derive(Clone, Copy)]
pub enum Used<'a> {
    /// An action.
    Action(&'a FlowAction),
    /// Counters.
    Counters(&'a Counters),
}

/// Adds `change` to a use count.
///
/// # Safety
///
/// `count` is a valid use count.
unsafe fn count(count: *mut bindings::atomic_t, change: i32) {
    // SAFETY: By the safety requirements; C accesses it atomically too.
    unsafe { AtomicI32::from_ptr(count.cast()) }.fetch_add(change, Ordering::Relaxed);
}

impl FlowResources {
    /// Records an object that the rule uses, and counts the rule as its user.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the capacity is exhausted.
    ///
    /// # Safety
    ///
    /// No other thread uses the structure during the call.
    pub unsafe fn add(&self, used: Used<'_>) -> Result {
        // SAFETY: By the safety requirements; the structure has two arrays of `max` pointers, of which `num` are in use.
        unsafe {
            let raw = self.as_raw();
            if (*raw).num >= (*raw).max {
                return Err(ENOSPC);
            }
            match used {
                Used::Action(action) => {
                    count(&raw mut (*action.as_raw()).usecnt, 1);
                    (*raw)
                        .collection
                        .add((*raw).collection_num)
                        .write(action.as_raw());
                    (*raw).collection_num = (*raw).collection_num.wrapping_add(1);
                }
                Used::Counters(counters) => {
                    count(&raw mut (*counters.as_raw()).usecnt, 1);
                    (*raw)
                        .counters
                        .add((*raw).counters_num)
                        .write(counters.as_raw());
                    (*raw).counters_num = (*raw).counters_num.wrapping_add(1);
                }
            }
            (*raw).num = (*raw).num.wrapping_add(1);
        }
        Ok(())
    }
}

/// The resources of a rule with their ownership. Dropping it decrements the use counts.
///
/// # Invariants
///
/// The structure is from a `KBox`, and its arrays from `KVec`s of the capacity `max`. The objects in them count this value
/// as a user.
pub struct OwnedResources(NonNull<FlowResources>);

impl OwnedResources {
    /// Allocates resources with a capacity for `max` specifications.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(max: usize) -> Result<Self> {
        let mut raw = KBox::new(ib_uflow_resources::zeroed(), GFP_KERNEL)?;
        let counters = KVec::with_capacity(max, GFP_KERNEL)?;
        let collection = KVec::with_capacity(max, GFP_KERNEL)?;
        // Both vectors have a capacity of at least `max`.
        raw.max = max;
        raw.counters = counters.into_raw_parts().0;
        raw.collection = collection.into_raw_parts().0;
        // INVARIANT: The structure and the vectors were just allocated.
        Ok(Self(NonNull::from(KBox::leak(raw)).cast()))
    }

    /// As [`FlowResources::add`].
    ///
    /// # Errors
    ///
    /// `ENOSPC` if the capacity is exhausted.
    pub fn add(&mut self, used: Used<'_>) -> Result {
        // SAFETY: By the type invariants `self` owns the structure, and it is borrowed mutably.
        unsafe { self.0.as_ref().add(used) }
    }

    /// Hands the resources over to C.
    pub fn into_raw(self) -> *mut ib_uflow_resources {
        core::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }
}

impl core::ops::Deref for OwnedResources {
    type Target = FlowResources;

    fn deref(&self) -> &FlowResources {
        // SAFETY: By the type invariants the structure is valid.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for OwnedResources {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the structure, and is counted by its objects.
        unsafe {
            let raw = KBox::from_raw(self.0.as_ptr().cast::<ib_uflow_resources>());
            for nth in 0..raw.collection_num {
                count(&raw mut (**raw.collection.add(nth)).usecnt, -1);
            }
            for nth in 0..raw.counters_num {
                count(&raw mut (**raw.counters.add(nth)).usecnt, -1);
            }
            drop(KVec::from_raw_parts(raw.collection, 0, raw.max));
            drop(KVec::from_raw_parts(raw.counters, 0, raw.max));
        }
    }
}

/// Owned resources that C passes or gets, or null.
pub struct MaybeResources(pub Option<OwnedResources>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MaybeResources {
    type Raw = *mut ib_uflow_resources;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the safety requirements.
        Self(NonNull::new(raw.cast()).map(OwnedResources))
    }
}

impl IntoC for MaybeResources {
    type Raw = *mut ib_uflow_resources;

    fn into_c(self) -> Self::Raw {
        self.0
            .map_or(core::ptr::null_mut(), OwnedResources::into_raw)
    }
}

view_of! {
    /// The memory of a flow steering rule: `struct ib_uflow_object`.
    pub struct FlowObject(bindings::ib_uflow_object);
}

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Flow {
    const ID: u16 = bindings::UVERBS_OBJECT_FLOW as u16;
    type Memory = FlowObject;
}

impl FlowObject {
    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: The structure begins with the `ib_uobject`.
        unsafe { &*self.as_raw().cast() }
    }
}

impl NewObject<'_, Flow> {
    /// Completes the object of a rule with the driver's object, and with what the rule uses.
    pub fn complete_flow(self, flow: Owned<Flow>, resources: OwnedResources) {
        // SAFETY: The object is new, and only this thread uses it; `destroy` frees the resources.
        unsafe { (*self.as_raw()).resources = resources.into_raw() };
        self.complete(flow);
    }
}

/// Destroys a flow steering rule.
///
/// # Errors
///
/// Those of the driver.
pub fn destroy(
    object: Destroying<'_, Flow>,
    _why: RemoveReason,
    _command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    let qp = driver_object(&object)?.qp().map(Qp::uses);
    destroy::destroy(&object, |flow| flow.driver_destroy(sleep))?;
    if let Some(uses) = qp {
        // SAFETY: The flow, which was counted when it was created, is destroyed.
        unsafe { uses.dec() };
    }
    // SAFETY: The member is null, or was allocated by `complete_flow` or a driver for the rule, which is destroyed.
    unsafe {
        let resources = core::mem::replace(&mut (*object.as_raw()).resources, null_mut());
        bindings::ib_uverbs_flow_resources_free(resources);
    }
    Ok(())
}
