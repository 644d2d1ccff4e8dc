// SPDX-License-Identifier: GPL-2.0

//! Mappings of device memory.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{mm::virt::VmaNew, prelude::*};
use kernel_ext::export::export;
use rdma::{
    core::{command::UverbsFile, Device},
    MaySleep,
};
use rdma_uverbs::umap;

/// Maps what the driver has at the mapping's offset.
///
/// # Errors
///
/// `EIO` if the device has gone, `EINVAL` if the file has no context, and what the driver says.
pub(crate) fn mmap(file: &UverbsFile, area: &VmaNew, sleep: &MaySleep) -> Result {
    umap::map(file, area, sleep)
}

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
            let frozen = file.freeze(sleep);
            if !frozen.ucontext().is_null() {
                umap::disassociate(&frozen, sleep);
            }
        },
        sleep,
    );
}
