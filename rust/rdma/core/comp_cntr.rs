// SPDX-License-Identifier: GPL-2.0

//! Completion counters: `struct ib_comp_cntr`, which count the completions of queue pairs without completion queues.
//!
//! For kernels whose headers have them: `has_comp_cntr` of `rust/Makefile.has`. For others `no_comp_cntr.rs` stands here.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{mem::offset_of, ptr::NonNull, sync::atomic::AtomicU32};

use kernel::{error::to_result, ffi::c_void, prelude::*};
use kernel_ext::{entry::view_of, gfp::Gfp};
use rdma_bindings::{self as bindings, ib_comp_cntr, ib_device, ib_qp, xarray};

use super::{
    object::{counted, driver_object, links, tracked, Fresh, UseCount},
    uobject::ObjectLink,
    Device, Qp, RestrackEntry,
};
use crate::MaySleep;

view_of! {
    /// A completion counter: `struct ib_comp_cntr`.
    pub struct CompCntr(ib_comp_cntr);
}
driver_object!(CompCntr, size_ib_comp_cntr; RDMA_RESTRACK_COMP_CNTR);
tracked!(CompCntr);
counted!(CompCntr);

/// The kind of resource tracking and its name, in a list of kinds.
pub const SUMMARY: &[(u32, &CStr)] = &[(bindings::RDMA_RESTRACK_COMP_CNTR, c"comp_cntr")];

/// Puts the group of members of `struct ib_device_ops` before the input of a macro.
macro_rules! with_comp_cntr_ops {
    ($then:ident! { $($input:tt)* }) => {
        $then! {
            methods:
            create_comp_cntr destroy_comp_cntr modify_comp_cntr qp_attach_comp_cntr
            query_comp_cntr_caps read_comp_cntr;
            pointers: ;
            sizes: size_ib_comp_cntr;
            $($input)*
        }
    };
}
pub(super) use with_comp_cntr_ops;

/// Initialises the members of a new queue pair.
pub(super) fn begin(qp: &mut ib_qp) {
    // SAFETY: The queue pair is borrowed mutably, and its memory is not moved after this.
    unsafe { bindings::xa_init_flags(&mut qp.comp_cntrs, 0) };
}

impl CompCntr {
    /// The counter that a resource tracking entry is of.
    pub(super) fn of_entry(entry: &RestrackEntry) -> Option<&Self> {
        if entry.kind() != bindings::RDMA_RESTRACK_COMP_CNTR {
            return None;
        }
        // SAFETY: The type of the entry says that it is a member of a counter, which is valid as long as the entry.
        unsafe {
            let offset = offset_of!(ib_comp_cntr, res);
            Some(&*entry.as_raw().byte_sub(offset).cast::<Self>())
        }
    }

    /// The device, for its resource tracking entry.
    pub(super) fn raw_device(&self) -> *mut ib_device {
        // SAFETY: The member is constant.
        unsafe { (*self.as_raw()).device }
    }

    links! {
        /// The device.
        device: Device = device;
    }
}

impl Fresh<CompCntr> {
    /// Allocates a completion counter with a user object.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_comp_cntr(
        device: &Device,
        object: ObjectLink<'_>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let mut counter = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_comp_cntr = counter.raw();
        raw.device = device.as_raw();
        raw.uobject = object.as_raw();
        Ok(counter)
    }
}

impl Qp {
    /// The operations that have a counter: bits of `enum ib_qp_attach_comp_cntr_op`.
    pub(super) fn comp_cntr_ops(&self) -> &AtomicU32 {
        // SAFETY: The member is valid as long as the queue pair, and is accessed atomically.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.as_raw()).comp_cntr_op_mask) }
    }

    fn comp_cntrs(&self) -> *mut xarray {
        // SAFETY: The member is valid as long as the queue pair.
        unsafe { &raw mut (*self.as_raw()).comp_cntrs }
    }

    /// Counts the queue pair as a user of a counter, which it is attached to.
    pub(super) fn store_comp_cntr(&self, counter: &CompCntr, ops: u32, sleep: &MaySleep) -> Result {
        let gfp = Gfp::kernel(sleep).as_raw();
        let entry: *mut c_void = counter.as_raw().cast();
        // SAFETY: `begin` has initialised the array, whose operations have their own lock.
        let stored = unsafe {
            let old = bindings::xa_store(self.comp_cntrs(), ops as usize, entry, gfp);
            bindings::xa_err(old)
        };
        to_result(stored)?;
        counter.uses().inc();
        Ok(())
    }

    pub(super) fn erase_comp_cntr(&self, counter: &CompCntr, ops: u32) {
        // SAFETY: As in `store_comp_cntr`. A counter that was in the array was counted there.
        unsafe {
            let erased = bindings::xa_erase(self.comp_cntrs(), ops as usize);
            if erased == counter.as_raw().cast() {
                counter.uses().dec();
            }
        }
    }
}

impl Fresh<Qp> {
    /// Ends the use of the counters of a queue pair that the driver has destroyed.
    pub fn release_comp_cntrs(&mut self) {
        let array = &raw mut self.raw().comp_cntrs;
        let mut index = 0;
        // SAFETY: `begin` has initialised the array, and only this thread uses it. Each entry is a counter that counts the queue
        // pair as a user, and so is valid.
        unsafe {
            let mut next = bindings::xa_find(array, &mut index, usize::MAX, bindings::XA_PRESENT);
            while let Some(counter) = NonNull::new(next.cast::<ib_comp_cntr>()) {
                UseCount::new(&raw mut (*counter.as_ptr()).usecnt).dec();
                next = bindings::xa_find_after(array, &mut index, usize::MAX, bindings::XA_PRESENT);
            }
            bindings::xa_destroy(array);
        }
    }
}
