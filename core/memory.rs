// SPDX-License-Identifier: GPL-2.0

//! Memory: of user space for devices, of devices for user space, and what devices know it by.
//!
//! | file | what |
//! |---|---|
//! | [`umem`] | memory of user space: pinned, paged in on demand, or a DMA buffer |
//! | [`udata`] | what user space sends along with commands |
//! | [`user_mmap`] | memory of devices that user space maps |
//! | [`frmr_pools`] | pools of handles for fast registration |
//! | [`block_iter`], [`dma`] | going through memory by blocks; DMA of devices that have none |
//! | [`state`] | what is kept of a device |

mod block_iter;
mod dma;
pub(crate) mod frmr_pools;
pub(crate) mod state;
mod udata;
mod umem;
mod user_mmap;
