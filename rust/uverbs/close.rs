// SPDX-License-Identifier: GPL-2.0

//! The end of a file's context: when the file is closed, or the device goes.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr;

use kernel::warn_on;
use rdma::{
    view::{uobject::RemoveReason, Ucontext},
    MaySleep,
};
use rdma_bindings as bindings;

use crate::{file::HwDestroyGuard, umap};

/// Destroys the context of a file that has no objects any more.
///
/// When the device goes, the file's mappings are taken away before: those of a file that is closed are gone.
pub fn destroy_context(file: &HwDestroyGuard<'_>, why: RemoveReason, sleep: &MaySleep) {
    let raw = file.ucontext();
    // SAFETY: The file has the context, and nobody destroys it meanwhile; a view is a transparent wrapper.
    let Some(context) = (unsafe { raw.cast::<Ucontext>().as_ref() }) else {
        return;
    };
    let device = context.device();
    if why == RemoveReason::DriverRemove {
        umap::disassociate(file, sleep);
        if let Some(disassociate) = device.ops().disassociate_ucontext {
            // SAFETY: The context is the driver's, and its file makes no more calls.
            unsafe { disassociate(raw) };
        }
    }
    // SAFETY: Making the context has charged, tracked and allocated it. Nobody has it but the file, which forgets it.
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
