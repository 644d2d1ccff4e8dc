// SPDX-License-Identifier: GPL-2.0

//! Memory: user memory for devices, device memory for user space, FRMR pools.
//!
//! | file | what |
//! |---|---|
//! | [`umem`] | user memory: pinned, paged on demand (ODP), or a dma-buf |
//! | [`udata`] | the driver's data in commands of user space |
//! | [`user_mmap`] | device memory that user space maps |
//! | [`frmr_pools`] | pools of fast registration memory region (FRMR) handles |
//! | [`block_iter`], [`dma`] | iteration over DMA blocks; DMA mapping for software devices |
//! | [`state`] | data of a device |
//!
//! C headers: `include/rdma/ib_umem.h`, `include/rdma/frmr_pools.h`.

mod block_iter;
mod dma;
pub(crate) mod frmr_pools;
pub(crate) mod state;
mod udata;
mod umem;
mod user_mmap;
