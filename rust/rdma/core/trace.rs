// SPDX-License-Identifier: GPL-2.0

//! Tracepoints of the core: `rdma_core:*`. Any context.
//!
//! A disabled tracepoint costs a test of its static key. The definitions are in `core/trace.c`, so that only the core can
//! use this module, and all of it is inline.
//!
//! C header: `include/trace/events/rdma_core.h`.

use kernel::{error::Error, ffi::c_int};
use rdma_bindings::{ib_cq, ib_mr, ib_mr_type, ib_pd, ib_poll_context};

use crate::core::{Cq, Mr, Pd};

/// Declares tracepoints with a safe function for each: its arguments, and their conversion for C.
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
                // SAFETY: C defines the tracepoint in the same module.
                if unsafe { $crate::core::trace::is_on(&raw const [<__tracepoint_ $name>]) } {
                    // SAFETY: The arguments are references, so that the objects are valid.
                    unsafe { [<rust_do_trace_ $name>]($($raw),*) };
                }
            }
        }
    )*};
}
pub(crate) use tracepoints;

/// Whether the tracepoint is enabled.
///
/// # Safety
///
/// `point` is a valid tracepoint.
#[inline(always)]
#[cfg(CONFIG_TRACEPOINTS)]
pub(crate) unsafe fn is_on(point: *const rdma_bindings::tracepoint) -> bool {
    use core::sync::atomic::{AtomicI32, Ordering};

    // SAFETY: By the safety requirements. The key is a count that is changed atomically.
    unsafe {
        let count = &raw const (*point).key.key.enabled.counter;
        AtomicI32::from_ptr(count.cast_mut()).load(Ordering::Relaxed) > 0
    }
}

/// The argument of C for a new region: the region, or an errno.
#[inline(always)]
fn region(mr: Result<&Mr, &Error>) -> *const ib_mr {
    match mr {
        Ok(mr) => mr.as_raw(),
        Err(error) => error.to_ptr(),
    }
}

tracepoints! {
    /// The completion handler of a queue was called, and its poller is scheduled.
    cq_schedule(cq: &Cq => cq.as_raw(), *mut ib_cq);
    /// A poller has used up its budget, and is scheduled again.
    cq_reschedule(cq: &Cq => cq.as_raw(), *mut ib_cq);
    /// A poller begins.
    cq_process(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// A poller has asked for `requested` completions, and got `count`.
    cq_poll(cq: &Cq => cq.as_raw(), *const ib_cq; requested: usize => requested as c_int, c_int;
        count: usize => count as c_int, c_int);
    /// A queue pair was drained from a queue.
    cq_drain_complete(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// The moderation of a queue was set, in completions and microseconds.
    cq_modify(cq: &Cq => cq.as_raw(), *const ib_cq; comps: u16 => comps, u16; usec: u16 => usec, u16);
    /// A queue that the core polls was created.
    cq_alloc(cq: &Cq => cq.as_raw(), *const ib_cq; cqe: u32 => cqe as c_int, c_int;
        comp_vector: u32 => comp_vector as c_int, c_int; poll_ctx: u32 => poll_ctx, ib_poll_context);
    /// The creation of such a queue has failed.
    cq_alloc_error(cqe: u32 => cqe as c_int, c_int; comp_vector: u32 => comp_vector as c_int, c_int;
        poll_ctx: u32 => poll_ctx, ib_poll_context; error: Error => error.to_errno(), c_int);
    /// Such a queue is freed.
    cq_free(cq: &Cq => cq.as_raw(), *const ib_cq);
    /// A region was allocated by `ib_alloc_mr`, or its allocation has failed.
    mr_alloc(pd: &Pd => pd.as_raw(), *const ib_pd; kind: u32 => kind, ib_mr_type; max_num_sg: u32 => max_num_sg, u32;
        mr: Result<&Mr, &Error> => region(mr), *const ib_mr);
    /// An integrity region was allocated, or its allocation has failed.
    mr_integ_alloc(pd: &Pd => pd.as_raw(), *const ib_pd; max_data_sg: u32 => max_data_sg, u32;
        max_meta_sg: u32 => max_meta_sg, u32; mr: Result<&Mr, &Error> => region(mr), *const ib_mr);
    /// A region is deregistered.
    mr_dereg(mr: &Mr => mr.as_raw(), *const ib_mr);
}
