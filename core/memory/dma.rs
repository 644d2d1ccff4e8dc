// SPDX-License-Identifier: GPL-2.0

//! DMA mapping for software devices, whose DMA addresses are kernel addresses.
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_dma_map_sg` and its like).

use kernel::ffi::c_int;
use kernel_ext::{
    bindings::{self, ib_device, scatterlist},
    export::export,
};

/// Maps a scatterlist for a software device. Any context. Returns the number of entries: all.
///
/// # Safety
///
/// `sg` is a list of at least `nents` entries, whose pages are in the kernel's direct map.
#[export]
unsafe extern "C" fn ib_dma_virt_map_sg(
    _device: *mut ib_device,
    sg: *mut scatterlist,
    nents: c_int,
) -> c_int {
    // SAFETY: By the safety requirements.
    unsafe { bindings::ib_dma_map_sg_to_virtual(sg, nents) };
    nents
}
