// SPDX-License-Identifier: GPL-2.0

//! Pools of memory regions of a queue pair (RW API).
//!
//! C header: `include/rdma/mr_pool.h`.

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, export::export};
use rdma::{
    core::mr::{MrListArg, MrPool, MrPoolQp, PooledMr},
    MaySleep,
};

use crate::verbs::mr;

/// Fills a pool with `count` regions of a type; on failure empties it.
///
/// # Errors
///
/// Those of allocating a region.
pub(crate) fn fill(
    pool: MrPool<'_>,
    count: u32,
    kind: u32,
    (data_sg, meta_sg): (u32, u32),
    sleep: &MaySleep,
) -> Result {
    let pd = pool.qp().pd().ok_or(EINVAL)?;
    for _ in 0..count {
        let new = if kind == c::IB_MR_TYPE_INTEGRITY {
            mr::alloc_integrity(pd, data_sg, meta_sg, sleep)
        } else {
            mr::alloc(pd, kind, data_sg, sleep)
        };
        match new {
            Ok(mr) => pool.add(mr),
            Err(error) => {
                empty(pool, sleep);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Deregisters the regions of a pool. None may be in use.
pub(crate) fn empty(pool: MrPool<'_>, sleep: &MaySleep) {
    while let Some(mr) = pool.remove() {
        if mr::dereg(mr, None, sleep).is_err() {
            pr_warn!("a region of a pool cannot be deregistered\n");
        }
    }
}

/// Fills a pool. Process context.
///
/// # Errors
///
/// As for `ib_alloc_mr`, `ib_alloc_mr_integrity`.
#[export]
fn ib_mr_pool_init(
    qp: MrPoolQp<'_>,
    list: MrListArg<'_>,
    nr: c_int,
    kind: c::ib_mr_type,
    max_num_sg: u32,
    max_num_meta_sg: u32,
    sleep: &MaySleep,
) -> Result {
    let count = u32::try_from(nr).unwrap_or(0);
    let limits = (max_num_sg, max_num_meta_sg);
    fill(qp.pool(list), count, kind, limits, sleep)
}

/// Deregisters the regions of a pool, none of which is in use. Process context.
#[export]
fn ib_mr_pool_destroy(qp: MrPoolQp<'_>, list: MrListArg<'_>, sleep: &MaySleep) {
    empty(qp.pool(list), sleep);
}

/// Takes a region from a pool; null if it is empty. Any context.
#[export]
fn ib_mr_pool_get(qp: MrPoolQp<'_>, list: MrListArg<'_>) -> *mut c::ib_mr {
    let mr = qp.pool(list).get();
    mr.map_or(core::ptr::null_mut(), PooledMr::into_raw)
}

/// Returns a region to its pool. Any context.
#[export]
fn ib_mr_pool_put(qp: MrPoolQp<'_>, list: MrListArg<'_>, mr: PooledMr<'_>) {
    qp.pool(list).put(mr);
}
