// SPDX-License-Identifier: GPL-2.0

//! What flow steering rules use: `struct ib_uflow_resources`, as drivers of C have it too.
//!
//! C header: `include/rdma/uverbs_std_types.h`.

use core::{
    ptr::NonNull,
    sync::atomic::{AtomicI32, Ordering},
};

use kernel::prelude::*;
use kernel_ext::door::{view_of, FromC, IntoC};
use rdma::core::{Counters, FlowAction};
use rdma_bindings::{self as bindings, ib_uflow_resources};

view_of! {
    /// The actions and counters that a rule uses, with room for some more. Of one thread at a time.
    pub struct FlowResources(ib_uflow_resources);
}

/// What a rule uses.
#[derive(Clone, Copy)]
pub enum Used<'a> {
    /// An action.
    Action(&'a FlowAction),
    /// Counters.
    Counters(&'a Counters),
}

/// Counts up or down how often something is used.
///
/// # Safety
///
/// `count` is there.
unsafe fn count(count: *mut bindings::atomic_t, change: i32) {
    // SAFETY: By the safety requirements; C uses it atomically too.
    unsafe { AtomicI32::from_ptr(count.cast()) }.fetch_add(change, Ordering::Relaxed);
}

impl FlowResources {
    /// Remembers what the rule uses, and counts that up.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room.
    ///
    /// # Safety
    ///
    /// No other thread uses the structure meanwhile.
    pub unsafe fn add(&self, used: Used<'_>) -> Result {
        // SAFETY: By the safety requirements; the structure has arrays of `max` pointers, and `num` is how many both have.
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

/// The resources of a rule, as its owner has them. Dropping them counts down what is used.
///
/// # Invariants
///
/// The structure is from a `KBox`, and its arrays from `KVec`s of the capacity `max`. What is in them counts this as a user.
pub struct OwnedResources(NonNull<FlowResources>);

impl OwnedResources {
    /// Room for what `max` specifications use.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(max: usize) -> Result<Self> {
        let mut raw = KBox::new(ib_uflow_resources::zeroed(), GFP_KERNEL)?;
        let counters = KVec::with_capacity(max, GFP_KERNEL)?;
        let collection = KVec::with_capacity(max, GFP_KERNEL)?;
        // Both have room for `max` at least.
        raw.max = max;
        raw.counters = counters.into_raw_parts().0;
        raw.collection = collection.into_raw_parts().0;
        // INVARIANT: As just made.
        Ok(Self(NonNull::from(KBox::leak(raw)).cast()))
    }

    /// As [`FlowResources::add`].
    ///
    /// # Errors
    ///
    /// `ENOSPC` if there is no room.
    pub fn add(&mut self, used: Used<'_>) -> Result {
        // SAFETY: By the type invariants the structure is ours, and `self` is lent once.
        unsafe { self.0.as_ref().add(used) }
    }

    /// Gives them to C.
    pub fn into_raw(self) -> *mut ib_uflow_resources {
        core::mem::ManuallyDrop::new(self).0.as_ptr().cast()
    }
}

impl core::ops::Deref for OwnedResources {
    type Target = FlowResources;

    fn deref(&self) -> &FlowResources {
        // SAFETY: By the type invariants.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for OwnedResources {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
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

/// What C passes and gets as the owner of resources; null for none.
pub struct MaybeResources(pub Option<OwnedResources>);

// SAFETY: A caller passes what it owns.
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
