// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of the core, which `perf`, `trace-cmd` and `bpftrace` know as `rdma_core:*`. Any context.
//!
//! Where nobody traces, one costs a look at its key. The definitions are in `core/trace.c`; so only the core can use this
//! module, and all of it is inline.
//!
//! C header: `include/trace/events/rdma_core.h`.

use kernel::{error::Error, ffi::c_int};
use rdma_bindings::{ib_cq, ib_mr, ib_mr_type, ib_pd, ib_poll_context};

use crate::core::{Cq, Mr, Pd};

/// Declares tracepoints, and a safe function for each: the arguments, and what C gets of them.
macro_rules! tracepoints {
    ($(
        $(#[$doc:meta])*
        $name:ident($($arg:ident: $ty:ty => $raw:expr, $c:ty);*);
    )*) => {$(
        kernel::macros::paste! {
            #[cfg(CONFIG_TRACEPOINTS)]
            #[allow(improper_ctypes, reason = "some configurations leave some members empty")]
            extern "C" {
                static [<__tracepoint_ $name>]: rdma_bindings::tracepoint;
                fn [<rust_do_trace_ $name>]($($arg: $c),*);
            }

            $(#[$doc])*
            #[inline(always)]
            pub fn $name($($arg: $ty),*) {
                #[cfg(not(CONFIG_TRACEPOINTS))]
                let _: ($($c,)*) = ($($raw,)*);
                #[cfg(CONFIG_TRACEPOINTS)]
                // SAFETY: C has defined the tracepoint.
                if unsafe { $crate::core::trace::is_on(&raw const [<__tracepoint_ $name>]) } {
                    // SAFETY: The objects are there, for the arguments are references to them.
                    unsafe { [<rust_do_trace_ $name>]($($raw),*) };
                }
            }
        }
    )*};
}
pub(crate) use tracepoints;

/// Whether anybody traces.
///
/// # Safety
///
/// `point` is a tracepoint, which stays as long as its module.
#[inline(always)]
#[cfg(CONFIG_TRACEPOINTS)]
pub(crate) unsafe fn is_on(point: *const rdma_bindings::tracepoint) -> bool {
    use core::sync::atomic::{AtomicI32, Ordering};

    // SAFETY: By the safety requirements. The key counts who traces, and is changed atomically.
    unsafe {
        let count = &raw const (*point).key.key.enabled.counter;
        AtomicI32::from_ptr(count.cast_mut()).load(Ordering::Relaxed) > 0
    }
}

/// What C gets of a new region: the region, or an errno.
#[inline(always)]
fn region(mr: Result<&Mr, &Error>) -> *const ib_mr {
    match mr {
        Ok(mr) => mr.as_raw(),
        Err(error) => error.to_ptr(),
    }
}

tracepoints! {
    /// Completions were announced on a queue, and a poller is on its way.
    cq_schedule(cq: &Cq => cq.as_raw(), *mut ib_cq);
    /// A poller has not found all completions, and comes again.
    cq_reschedule(cq: &Cq => cq.as_raw(), *mut ib_cq);
    /// A poller begins.
    cq_process(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// A poller has asked for `requested` completions, and got `count`.
    cq_poll(cq: &Cq => cq.as_raw(), *const ib_cq; requested: usize => requested as c_int, c_int;
        count: usize => count as c_int, c_int);
    /// What a queue pair has posted was drained from a queue.
    cq_drain_complete(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// A queue is moderated: after so many completions, or so many microseconds.
    cq_modify(cq: &Cq => cq.as_raw(), *const ib_cq; comps: u16 => comps, u16; usec: u16 => usec, u16);
    /// A queue was made that is polled for its client.
    cq_alloc(cq: &Cq => cq.as_raw(), *const ib_cq; cqe: u32 => cqe as c_int, c_int;
        comp_vector: u32 => comp_vector as c_int, c_int; poll_ctx: u32 => poll_ctx, ib_poll_context);
    /// It could not be made.
    cq_alloc_error(cqe: u32 => cqe as c_int, c_int; comp_vector: u32 => comp_vector as c_int, c_int;
        poll_ctx: u32 => poll_ctx, ib_poll_context; error: Error => error.to_errno(), c_int);
    /// A queue is freed that was polled for its client.
    cq_free(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// A region was made for registering memory later, or could not be made.
    mr_alloc(pd: &Pd => pd.as_raw(), *const ib_pd; kind: u32 => kind, ib_mr_type; max_num_sg: u32 => max_num_sg, u32;
        mr: Result<&Mr, &Error> => region(mr), *const ib_mr);
    /// A region was made that checks the integrity of data, or could not be made.
    mr_integ_alloc(pd: &Pd => pd.as_raw(), *const ib_pd; max_data_sg: u32 => max_data_sg, u32;
        max_meta_sg: u32 => max_meta_sg, u32; mr: Result<&Mr, &Error> => region(mr), *const ib_mr);
    /// A region is deregistered.
    mr_dereg(mr: &Mr => mr.as_raw(), *const ib_mr);
}
