// SPDX-License-Identifier: GPL-2.0

//! Completion queues: creation and destruction. [`poll`]: polling for kernel clients; [`pool`]: queues shared by
//! clients.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub(crate) mod poll;
pub(crate) mod pool;
#[cfg(CONFIG_KUNIT = "y")]
mod tests;

use core::sync::atomic::{AtomicU32, Ordering};

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, entry::Const, error::EOPNOTSUPP, export::export};
use rdma::{
    core::{
        callback::{Context, Handler},
        cq::{CqHandlers, CqInit, EventFn, OwnCqInit},
        object::{Fresh, Owned, OwnedOrErr, UdataView},
        qp::Caller,
        trace, Cq, Device,
    },
    MaySleep,
};

use crate::restrack::track;

fn create(
    device: &Device,
    handlers: CqHandlers,
    init: &CqInit,
    caller: Caller,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    if init.cqe() == 0 {
        return Err(EINVAL);
    }
    let mut cq = Fresh::new_cq(device, handlers, sleep)?;
    track::set_owner(&mut cq, caller);
    let cq = cq.driver_create(init, sleep).map_err(track::discard)?;
    track::add(&cq);
    Ok(cq)
}

/// Creates a completion queue that its client polls. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid size, `ENOMEM`, and errors of the driver.
#[export]
fn __ib_create_cq(
    device: &Device,
    comp_handler: Handler<'_, c::ib_comp_handler>,
    event_handler: Handler<'_, EventFn>,
    cq_context: Context<'_>,
    cq_attr: Const<'_, CqInit>,
    caller: Caller,
    sleep: &MaySleep,
) -> OwnedOrErr<Cq> {
    let handlers = CqHandlers::new(comp_handler, event_handler, cq_context);
    OwnedOrErr(create(device, handlers, &cq_attr, caller, sleep))
}

/// Sets the interrupt moderation of a completion queue: number of completions, and period in microseconds. Process
/// context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, or for a shared queue; and errors of the driver.
#[export]
pub(crate) fn rdma_set_cq_moderation(
    cq: &Cq,
    cq_count: u16,
    cq_period: u16,
    sleep: &MaySleep,
) -> Result {
    if cq.is_shared() {
        return Err(EOPNOTSUPP);
    }
    cq.driver_modify(cq_count, cq_period, sleep)
}

/// Destroys a completion queue of `ib_create_cq` or of user space. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` for a shared queue, `EBUSY` while it is used, and errors of the driver: the queue is then not
/// destroyed.
#[export]
fn ib_destroy_cq_user(cq: Owned<Cq>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    if cq.is_shared() {
        return Err(EOPNOTSUPP);
    }
    if cq.uses().is_used() {
        return Err(EBUSY);
    }
    track::destroy(cq, sleep, |cq| cq.driver_destroy(udata, sleep))?;
    Ok(())
}

/// Attributes of a completion queue that the core polls.
pub(crate) struct Polled<'a> {
    /// The client's context, if it is the client's alone.
    pub(crate) context: Option<Context<'a>>,
    /// Minimum number of entries.
    pub(crate) cqe: u32,
    /// The completion vector.
    pub(crate) comp_vector: u32,
    /// `enum ib_poll_context`.
    pub(crate) poll_ctx: u32,
}

/// Creates a completion queue that the core polls.
///
/// # Errors
///
/// `EINVAL` for an invalid size or poll context; `ENOMEM`, and errors of the driver.
pub(crate) fn alloc_polled(
    device: &Device,
    polled: &Polled<'_>,
    caller: Caller,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    if polled.cqe == 0 {
        return Err(EINVAL);
    }
    let Polled {
        cqe,
        comp_vector,
        poll_ctx,
        ..
    } = *polled;
    let cq = make_polled(device, polled, caller, sleep);
    match &cq {
        Ok(cq) => trace::cq_alloc(cq, cqe, comp_vector, poll_ctx),
        Err(error) => trace::cq_alloc_error(cqe, comp_vector, poll_ctx, *error),
    }
    cq
}

fn make_polled(
    device: &Device,
    polled: &Polled<'_>,
    caller: Caller,
    sleep: &MaySleep,
) -> Result<Owned<Cq>> {
    let (poll_ctx, vector) = (polled.poll_ctx, polled.comp_vector);
    let mut cq = Fresh::new_polled(device, polled.context, poll_ctx, vector, sleep)?;
    track::set_owner(&mut cq, caller);
    let init = OwnCqInit::new(polled.cqe, vector);
    let cq = cq.driver_create_polled(init.view(), sleep);
    let cq = poll::start(cq.map_err(track::discard)?, sleep)?;
    track::add(&cq);
    Ok(cq)
}

/// Frees a completion queue that the core polls.
pub(crate) fn free_polled(cq: Owned<Cq>, sleep: &MaySleep) {
    track::remove(&cq, sleep);
    trace::cq_free(&cq);
    if cq.destroy_polled(sleep).is_err() {
        // Leaked: the driver still uses it.
        pr_warn!("a completion queue of the kernel cannot be destroyed\n");
    }
}

/// Allocates a completion queue for a kernel client whose work requests have a `wr_cqe`; the core polls it in
/// `poll_ctx`. Process context.
///
/// # Errors
///
/// `EINVAL` for an invalid size or poll context; `ENOMEM`, and errors of the driver.
#[export]
fn __ib_alloc_cq(
    device: &Device,
    private: Context<'_>,
    nr_cqe: c_int,
    comp_vector: c_int,
    poll_ctx: c::ib_poll_context,
    caller: Caller,
    sleep: &MaySleep,
) -> OwnedOrErr<Cq> {
    let polled = Polled {
        context: Some(private),
        cqe: nr_cqe as u32,
        comp_vector: comp_vector as u32,
        poll_ctx,
    };
    OwnedOrErr(alloc_polled(device, &polled, caller, sleep))
}

/// The next completion vector.
static NEXT_VECTOR: AtomicU32 = AtomicU32::new(0);

/// As `__ib_alloc_cq`, on the device's completion vectors in rotation. Process context.
#[export]
fn __ib_alloc_cq_any(
    device: &Device,
    private: Context<'_>,
    nr_cqe: c_int,
    poll_ctx: c::ib_poll_context,
    caller: Caller,
    sleep: &MaySleep,
) -> OwnedOrErr<Cq> {
    let vectors = device.usable_vectors();
    let nth = NEXT_VECTOR.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let polled = Polled {
        context: Some(private),
        cqe: nr_cqe as u32,
        comp_vector: nth.checked_rem(vectors).unwrap_or(0),
        poll_ctx,
    };
    OwnedOrErr(alloc_polled(device, &polled, caller, sleep))
}

/// Frees an unused completion queue of `__ib_alloc_cq`. Process context.
#[export]
fn ib_free_cq(cq: Owned<Cq>, sleep: &MaySleep) {
    if cq.uses().is_used() || cq.is_claimed() {
        pr_warn!("a completion queue is freed that is in use\n");
        return;
    }
    free_polled(cq, sleep);
}
