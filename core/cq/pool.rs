// SPDX-License-Identifier: GPL-2.0

//! Completion queues that are shared by the clients of a device.
//!
//! A client claims entries in a queue of its completion vector, and returns them. Queues are created when there is no
//! room, one for each vector, and are freed with the device.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `ib_device::cq_pools_lock` | the shared completion queues, and the entries claimed | process | nothing |
//!
//! C header: `include/rdma/ib_verbs.h` (`ib_cq_pool_get`).

use core::sync::atomic::{AtomicU32, Ordering};

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, compat::limit::Limit, export::export};
use rdma::{
    core::{cq::RemovedCq, object::Owned, qp::Caller, Cq, Device},
    MaySleep,
};

use crate::cq::{self, Polled};

/// Minimum size of a shared queue.
const SHARED_CQE: u32 = 4096;

/// Owner of shared queues in resource tracking.
const OWNER: Caller = Caller::kernel(c"ib_core");

/// Creates a queue for each completion vector, with at least `cqe` entries each.
fn grow(device: &Device, cqe: u32, poll_ctx: u32, sleep: &MaySleep) -> Result {
    let most = device.attrs().max_cqe.most();
    let mut made = KVec::new();
    for comp_vector in 0..device.usable_vectors() {
        let polled = Polled {
            context: None,
            cqe: cqe.max(SHARED_CQE).min(most),
            comp_vector,
            poll_ctx,
        };
        let new = cq::alloc_polled(device, &polled, OWNER, sleep).and_then(|mut cq| {
            let has_room = cq.cqe() >= cqe;
            cq.set_shared(true);
            push(&mut made, cq, sleep)?;
            has_room.then_some(()).ok_or(EINVAL)
        });
        if let Err(error) = new {
            made.into_iter().for_each(|cq| free(cq, sleep));
            return Err(error);
        }
    }
    let pool = device.cq_pool(poll_ctx).ok_or(EINVAL)?;
    while let Some(cq) = made.pop() {
        pool.add(cq);
    }
    Ok(())
}

/// Adds a queue to the list; frees it if memory is short.
fn push(made: &mut KVec<Owned<Cq>>, cq: Owned<Cq>, sleep: &MaySleep) -> Result {
    if let Err(error) = made.reserve(1, GFP_KERNEL) {
        free(cq, sleep);
        return Err(error.into());
    }
    made.push(cq, GFP_KERNEL)?;
    Ok(())
}

fn free(mut cq: Owned<Cq>, sleep: &MaySleep) {
    cq.set_shared(false);
    cq::free_polled(cq, sleep);
}

/// Frees the shared queues of a device without clients.
pub(crate) fn free_all(device: &Device, sleep: &MaySleep) {
    for poll_ctx in 0..=c::IB_POLL_LAST_POOL_TYPE {
        while let Some(taken) = device.cq_pool(poll_ctx).and_then(|mut pool| pool.take()) {
            match taken {
                RemovedCq::Unused(cq) => free(cq, sleep),
                RemovedCq::Claimed => {
                    pr_warn!("a client has left with room in a shared completion queue\n");
                }
            }
        }
    }
}

/// The completion vector for clients without a hint.
static NEXT_VECTOR: AtomicU32 = AtomicU32::new(0);

/// The completion vector for a client's hint; a negative hint is none.
fn vector_for(device: &Device, wish: c_int) -> Result<u32> {
    let vectors = device.usable_vectors();
    let wish = u32::try_from(wish)
        .unwrap_or_else(|_| NEXT_VECTOR.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
    wish.checked_rem(vectors).ok_or(EINVAL)
}

/// Claims entries in a shared queue.
pub(crate) fn get(
    device: &Device,
    cqe: u32,
    wish: c_int,
    poll_ctx: u32,
    sleep: &MaySleep,
) -> Result<*mut c::ib_cq> {
    if poll_ctx > c::IB_POLL_LAST_POOL_TYPE {
        return Err(EINVAL);
    }
    let most = device.attrs().max_cqe.most();
    if cqe > most {
        return Err(EINVAL);
    }
    loop {
        // CPUs, and with them usable vectors, may go offline while the pool grows.
        let vector = vector_for(device, wish)?;
        let fits = |cq: &Cq| {
            let wanted = cq.claimed().checked_add(cqe);
            cq.comp_vector() == vector && wanted.is_some_and(|wanted| wanted <= cq.cqe())
        };
        let pool = device.cq_pool(poll_ctx).ok_or(EINVAL)?;
        if let Some(cq) = pool.claim(cqe, fits) {
            return Ok(cq);
        }
        drop(pool);
        grow(device, cqe, poll_ctx, sleep)?;
    }
}

/// Claims `nr_cqe` entries in a shared queue of a completion vector, or of any (-1). Process context.
///
/// # Errors
///
/// `EINVAL` for a poll context without shared queues, or more entries than a queue can have; `ENOMEM`, and errors of
/// the driver.
#[export]
fn ib_cq_pool_get(
    device: &Device,
    nr_cqe: u32,
    comp_vector_hint: c_int,
    poll_ctx: c::ib_poll_context,
    sleep: &MaySleep,
) -> kernel_ext::entry::ErrPtr<c::ib_cq> {
    kernel_ext::entry::ErrPtr(get(device, nr_cqe, comp_vector_hint, poll_ctx, sleep))
}

/// Returns entries of a shared queue. Process context.
#[export]
pub(crate) fn ib_cq_pool_put(cq: &Cq, nr_cqe: u32) {
    if let Some(pool) = cq.device().cq_pool(cq.poll_ctx()) {
        pool.give_back(cq, nr_cqe);
    }
}

#[kernel::prelude::kunit_tests(ib_core_cq_pool)]
mod tests {
    use super::*;
    use crate::kunit::{with_device, MAX_CQE};

    const CONTEXT: u32 = c::IB_POLL_SOFTIRQ;

    /// Calls `f` with a queue of a pool.
    fn look<R>(
        device: &Device,
        context: u32,
        cq: *mut c::ib_cq,
        f: impl FnOnce(&Cq) -> R,
    ) -> Result<R> {
        let pool = device.cq_pool(context).ok_or(EINVAL)?;
        pool.look(cq.addr(), f).ok_or(ENOENT)
    }

    /// Gives back entries, and returns how many are claimed after that.
    fn give_back(device: &Device, context: u32, cq: *mut c::ib_cq, count: u32) -> Result<u32> {
        let pool = device.cq_pool(context).ok_or(EINVAL)?;
        let left = pool.look(cq.addr(), |cq| {
            pool.give_back(cq, count);
            cq.claimed()
        });
        left.ok_or(ENOENT)
    }

    #[test]
    fn clients_share_a_queue_until_it_is_full() -> Result {
        with_device(|device, _, sleep| {
            let get = |cqe| get(device, cqe, 0, CONTEXT, sleep);
            let first = get(SHARED_CQE - 1)?;
            assert!(core::ptr::eq(first, get(1)?));
            assert_eq!(look(device, CONTEXT, first, Cq::claimed)?, SHARED_CQE);
            let second = get(1)?;
            assert!(!core::ptr::eq(first, second));
            give_back(device, CONTEXT, first, 2)?;
            // The newest queue is tried first.
            assert!(core::ptr::eq(second, get(2)?));
            let large = get(MAX_CQE)?;
            assert!(look(device, CONTEXT, large, Cq::cqe)? >= MAX_CQE);
            assert_eq!(look(device, CONTEXT, large, Cq::claimed)?, MAX_CQE);
            // Each poll context has queues of its own.
            let other = super::get(device, 1, 0, c::IB_POLL_WORKQUEUE, sleep)?;
            assert_eq!(look(device, c::IB_POLL_WORKQUEUE, other, Cq::claimed)?, 1);
            assert_eq!(look(device, CONTEXT, other, Cq::claimed), Err(ENOENT));
            for cq in [first, second, large] {
                let claimed = look(device, CONTEXT, cq, Cq::claimed)?;
                assert_eq!(give_back(device, CONTEXT, cq, claimed)?, 0);
            }
            assert_eq!(give_back(device, c::IB_POLL_WORKQUEUE, other, 1)?, 0);
            Ok(())
        })
    }

    #[test]
    fn no_more_is_returned_than_was_claimed() -> Result {
        with_device(|device, _, sleep| {
            let cq = get(device, 3, 0, CONTEXT, sleep)?;
            assert_eq!(give_back(device, CONTEXT, cq, 4)?, 0);
            assert_eq!(give_back(device, CONTEXT, cq, u32::MAX)?, 0);
            Ok(())
        })
    }

    #[test]
    fn invalid_arguments_are_rejected() -> Result {
        with_device(|device, _, sleep| {
            let get = |cqe, context| get(device, cqe, 0, context, sleep).err();
            assert_eq!(get(MAX_CQE + 1, CONTEXT), Some(EINVAL));
            assert_eq!(get(u32::MAX, CONTEXT), Some(EINVAL));
            assert_eq!(get(1, c::IB_POLL_LAST_POOL_TYPE + 1), Some(EINVAL));
            Ok(())
        })
    }

    #[test]
    fn vectors_go_round() -> Result {
        with_device(|device, _, _| {
            let vectors = device.usable_vectors();
            assert!(vectors > 0);
            for wish in [-1, c_int::MIN, 0, 1, c_int::MAX] {
                assert!(vector_for(device, wish)? < vectors);
            }
            Ok(())
        })
    }
}
