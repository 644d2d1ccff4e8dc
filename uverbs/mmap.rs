// SPDX-License-Identifier: GPL-2.0

//! Zapping the mappings of a device, for its driver.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel_ext::export::export;
use rdma::{core::Device, MaySleep};
use rdma_uverbs::umap;

/// Zaps all mappings of a device in user space, before the driver resets it. Process context; the driver keeps the device
/// registered.
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
