// SPDX-License-Identifier: GPL-2.0

//! The part of a queue pair that completions and posting handles refer to.

use core::{
    marker::PhantomData,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering},
};

use kernel::{prelude::*, sync::rcu};
use kernel_ext::error::ESHUTDOWN;
use rdma_bindings::ib_qp;

use super::{state::State, transport::Transport};
use crate::{
    client::{
        credit::{Credit, Queue},
        device::Brand,
        resources::Outstanding,
    },
    QpType,
};

/// The part of a queue pair for posting, in any context.
///
/// # Invariants
///
/// `raw` is the queue pair. It is used only in RCU read-side critical sections that begin before `closing` is set.
pub(in crate::client) struct Shared<'d> {
    pub(super) raw: AtomicPtr<ib_qp>,
    pub(super) number: AtomicU32,
    pub(super) qp_type: u32,
    pub(super) lkey: u32,
    /// Whether posting fails, since the queue pair is about to be destroyed or reset.
    pub(super) closing: AtomicBool,
    /// Whether it has been ready to send.
    pub(super) can_send: AtomicBool,
    /// The number of posted requests that are not handled; for datagrams only.
    pub(super) outstanding: AtomicUsize,
    pub(super) sends: Queue,
    pub(super) receives: Queue,
    pub(super) _brand: Brand<'d>,
}

/// A queue pair, for posting. Borrowed from the [`Qp`](super::Qp), from a [`QpHandle`](super::QpHandle), or from a completion.
#[repr(transparent)]
pub struct QpRef<'d, T: Transport, S: State> {
    pub(super) shared: Shared<'d>,
    _type: PhantomData<(T, S)>,
}

impl Shared<'_> {
    pub(in crate::client) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub(in crate::client) fn can_send(&self) -> bool {
        self.can_send.load(Ordering::Acquire)
    }

    /// Whether requests are counted: a datagram queue pair cannot be drained by a drain request.
    pub(super) fn is_counted(&self) -> bool {
        self.qp_type == QpType::Ud.as_raw()
    }

    /// Takes a credit for a request that is about to be posted to a queue of `self`.
    #[inline]
    pub(super) fn take_credit(&self, queue: &Queue) -> Result<Credit> {
        // SAFETY: `self` owns the queue, and is valid until all posted requests are handled.
        unsafe { queue.take_credit() }
    }

    /// Counts a request that is about to be posted.
    #[inline]
    pub(super) fn count(&self) -> Option<Outstanding> {
        if !self.is_counted() {
            return None;
        }
        // SAFETY: The destruction of the queue pair waits until the counter is zero.
        Some(unsafe { Outstanding::new(&self.outstanding) })
    }
}

impl<'d, T: Transport, S: State> QpRef<'d, T, S> {
    pub(super) fn cast<'a>(shared: &'a Shared<'d>) -> &'a Self {
        // SAFETY: The type is a transparent wrapper.
        unsafe { &*core::ptr::from_ref(shared).cast() }
    }

    /// The queue pair for a handler, with this transport and state. `None` for another transport.
    pub(in crate::client) fn of<'a>(shared: &'a Shared<'d>) -> Option<&'a Self> {
        (shared.qp_type == T::TYPE.as_raw()).then(|| Self::cast(shared))
    }

    /// The number of the queue pair.
    pub fn number(&self) -> u32 {
        self.shared.number()
    }

    /// Calls `post` with the queue pair, unless that is being destroyed or reset.
    pub(in crate::client) fn guarded(&self, post: impl FnOnce(*mut ib_qp) -> Result) -> Result {
        let _inside = rcu::read_lock();
        if self.shared.closing.load(Ordering::SeqCst) {
            return Result::Err(ESHUTDOWN);
        }
        post(self.shared.raw.load(Ordering::Acquire))
    }
}
