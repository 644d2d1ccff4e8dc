// SPDX-License-Identifier: GPL-2.0

//! Resolving the address of a peer for an identifier: `rdma_resolve_ip()`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Resolution::turn` | beginning and cancelling a resolution, one at a time | process context | what the core takes; the end of a callback |
//!
//! C header: `include/rdma/ib_addr.h`.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{
    error::to_result,
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
};
use rdma_bindings::{self as bindings, rdma_dev_addr, sockaddr};

use super::id::IdBody;
use crate::{
    core::{iw::address::SockAddr, mad::Embeds},
    MaySleep,
};

/// The resolution of an identifier, of which it is a part.
///
/// # Invariants
///
/// While `is_pending`, the core has a reference to the identifier, which its callback or who cancels it takes back.
#[pin_data]
pub struct Resolution {
    #[pin]
    turn: Mutex<()>,
    is_pending: AtomicBool,
}

/// An identifier whose address is resolved.
///
/// # Safety
///
/// [`Self::resolution`] always returns the same one, which is the identifier's own.
pub unsafe trait Resolves: Embeds<Body = IdBody> {
    /// The resolution.
    fn resolution(&self) -> &Resolution;

    /// The address is resolved, or not: the source address that the route has. Process context.
    fn resolved(this: Arc<Self>, result: Result, source: &SockAddr, sleep: &MaySleep);
}

impl Resolution {
    /// An initialiser.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            turn <- new_mutex!((), "Resolution::turn"),
            is_pending: AtomicBool::new(false),
        })
    }
}

/// Takes the reference back that the core has had.
///
/// # Safety
///
/// `context` is that of `begin`, and the core does not call back with it any more.
unsafe fn take_back<T: Resolves>(context: *const T) {
    // SAFETY: By the safety requirements the reference is that of `begin`, which is given up once: see `is_pending`.
    drop(unsafe { Arc::from_raw(context) });
}

/// Begins to resolve the address of a peer from that of the identifier.
///
/// # Errors
///
/// `EINVAL` for other families than those of IP; `ENOMEM`.
pub fn begin<T: Resolves>(
    this: &Arc<T>,
    destination: &SockAddr,
    timeout_ms: usize,
    sleep: &MaySleep,
) -> Result {
    let resolution = this.resolution();
    let _turn = resolution.turn.lock();
    // The core finds a request by the address of the structure, and a request that is done, of this identifier or of one that had
    // its memory before, may still be in its list: cancelling would then find that instead of the new one.
    cancel_locked(this, sleep);
    let raw = destination.to_raw();
    let context = Arc::into_raw(this.clone());
    resolution.is_pending.store(true, Ordering::Release);
    // SAFETY: The addresses are valid. The structure that the core fills in stays as long as the reference that is the context.
    let ret = unsafe {
        bindings::rdma_resolve_ip(
            this.body().source().cast(),
            (&raw const raw).cast(),
            this.body().dev_addr(),
            timeout_ms as c_ulong,
            Some(on_resolved::<T>),
            false,
            context.cast_mut().cast(),
        )
    };
    let begun = to_result(ret);
    if begun.is_err() && resolution.is_pending.swap(false, Ordering::AcqRel) {
        // SAFETY: The core has refused, and so does not call back.
        unsafe { take_back(context) };
    }
    begun
}

/// Cancels a resolution. The callback does not run any more when this returns.
pub fn cancel<T: Resolves>(this: &Arc<T>, sleep: &MaySleep) {
    let _turn = this.resolution().turn.lock();
    cancel_locked(this, sleep);
}

fn cancel_locked<T: Resolves>(this: &Arc<T>, _sleep: &MaySleep) {
    // SAFETY: The structure is valid. The function waits for a callback that runs.
    unsafe { bindings::rdma_addr_cancel(this.body().dev_addr()) };
    if this.resolution().is_pending.swap(false, Ordering::AcqRel) {
        // SAFETY: The callback has not run, and does not run after it was cancelled.
        unsafe { take_back(Arc::as_ptr(this)) };
    }
}

/// Takes the result of a resolution.
///
/// # Safety
///
/// The core calls it once with the context of `begin`, unless it is cancelled before; in process context.
unsafe extern "C" fn on_resolved<T: Resolves>(
    status: c_int,
    source: *mut sockaddr,
    _addr: *mut rdma_dev_addr,
    context: *mut c_void,
) {
    // SAFETY: By the safety requirements the reference is that of `begin`, which is given up here.
    let this: Arc<T> = unsafe { Arc::from_raw(context.cast()) };
    this.resolution().is_pending.store(false, Ordering::Release);
    // SAFETY: The core passes an address in a `sockaddr_storage`. Process context.
    let (source, sleep) = unsafe { (SockAddr::load(source.cast()), MaySleep::assume()) };
    T::resolved(this, to_result(status), &source, &sleep);
}
