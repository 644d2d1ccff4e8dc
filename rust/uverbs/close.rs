// SPDX-License-Identifier: GPL-2.0

//! Destroying the context of a device file, when the file is closed or the device is removed.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr;

use kernel::warn_on;
use rdma::{
    core::{uobject::RemoveReason, Ucontext},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{file::HwDestroyGuard, umap};

/// Destroys the context of a file, if it has one. That of a file with objects, which refer to it, stays for good.
///
/// When the device is removed, the file's mappings are zapped first; a file that is closed has none.
pub fn destroy_context(file: &HwDestroyGuard<'_>, why: RemoveReason, sleep: &MaySleep) {
    let raw = file.ucontext();
    // SAFETY: The context belongs to the file, and `hw_destroy_rwsem` is held for writing; a view is a transparent wrapper.
    let Some(context) = (unsafe { raw.cast::<Ucontext>().as_ref() }) else {
        return;
    };
    if warn_on!(file.has_objects()) {
        return;
    }
    let device = context.device();
    if why == RemoveReason::DriverRemove {
        umap::disassociate(file, sleep);
        if let Some(disassociate) = device.ops().disassociate_ucontext {
            // SAFETY: The driver has created the context, and `hw_destroy_rwsem` excludes commands of its file.
            unsafe { disassociate(raw) };
        }
    }
    // SAFETY: The context was charged, tracked and allocated when it was created. No object refers to it, but only the file,
    // until the pointer is cleared here.
    unsafe {
        let cgroup = &raw mut (*raw).cg_obj;
        bindings::ib_rdmacg_uncharge(
            cgroup,
            device.as_raw(),
            bindings::RDMACG_RESOURCE_HCA_HANDLE,
        );
        bindings::rdma_restrack_del(&raw mut (*raw).res);
        if let Some(dealloc) = device.ops().dealloc_ucontext {
            dealloc(raw);
        }
        warn_on!(!(*raw).mmap_xa.xa_head.is_null());
        bindings::kfree(raw.cast());
        (*file.as_raw()).ucontext = ptr::null_mut();
    }
}
