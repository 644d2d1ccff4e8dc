// SPDX-License-Identifier: GPL-2.0

//! Mappings of device memory.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel_ext::export::export;
use rdma::{view::Device, MaySleep};
use rdma_uverbs::umap;

/// Takes away all that user space has mapped of a device, which is about to be reset. Process context; the caller's driver
/// keeps the device registered.
#[export]
fn rdma_user_mmap_disassociate(device: &Device, sleep: &MaySleep) {
    // SAFETY: The driver calls it for a device that it does not unregister meanwhile.
    let Some(node) = (unsafe { crate::device::CLIENT.data(device) }) else {
        return;
    };
    node.for_each_file(
        |file| {
            let file = file.lock_hw_destroy(sleep);
            if !file.ucontext().is_null() {
                umap::disassociate(&file, sleep);
            }
        },
        sleep,
    );
}
