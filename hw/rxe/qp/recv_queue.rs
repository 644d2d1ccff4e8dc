// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: requests of a program's ring, of a kernel consumer, or of a shared receive queue.

use super::Qp;
use crate::ids::PdId;
use crate::limits;
use crate::ring::Consumer;
use crate::srq::Srq;
use crate::wqe::{self, RecvWqe};
use core::sync::atomic::Ordering;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::RecvWrs;

/// The longest list of a receive request.
const MAX_LIST: usize = limits::MAX_SGE as usize * limits::SGE;

/// Where receives come from.
pub(crate) enum Source {
    /// What a kernel consumer posted to the QP.
    Posted,
    /// The ring that a program posts to.
    Ring(Consumer),
    /// A shared receive queue.
    Shared(Arc<Srq>),
}

/// Where receives come from, and the current one. Guarded by the engine's lock.
pub(crate) struct RecvQueue {
    source: Source,
    max_sge: u32,
    /// Whose memory the lists may name.
    pub(super) pd: PdId,
    pub(super) current: Option<Current>,
    /// The list of the current receive.
    pub(super) list: KBox<[u8; MAX_LIST]>,
}

/// The receive that the responder works on.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub(super) wr_id: u64,
    pub(super) num_sge: u32,
}

impl RecvQueue {
    /// Makes a queue for the requests of `source`, which may have `max_sge` elements; those of a shared
    /// queue as many as it allows, in memory of its PD instead of `pd`. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(source: Source, max_sge: u32, pd: PdId) -> Result<Self> {
        let list = KBox::new([0; MAX_LIST], GFP_KERNEL)?;
        let pd = match &source {
            Source::Shared(srq) => srq.pd(),
            Source::Posted | Source::Ring(_) => pd,
        };
        Ok(Self {
            source,
            max_sge,
            pd,
            current: None,
            list,
        })
    }

    /// Whether the queue is a shared one.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.source, Source::Shared(_))
    }

    /// Forgets all requests, but for those that other QPs may take.
    pub(crate) fn reset(&mut self) {
        self.current = None;
        if let Source::Ring(ring) = &mut self.source {
            ring.clear();
        }
    }

    /// Puts requests that a program posts through the kernel into its ring.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a list that is too long, `ENOMEM` when the ring is full.
    pub(super) fn post(&mut self, wrs: &mut RecvWrs<'_>) -> Result {
        let Source::Ring(ring) = &mut self.source else {
            return Err(EINVAL);
        };
        wrs.try_for_each(|wr| wqe::post_recv(&wr, self.max_sge, ring))
    }

    /// Takes the next request, its list beside it.
    pub(super) fn take(&mut self, qp: &Qp) -> Option<RecvWqe> {
        match &mut self.source {
            Source::Posted => {
                let wqe = qp.posted_recvs.lock().take(&mut *self.list)?;
                qp.outstanding_recvs.fetch_sub(1, Ordering::AcqRel);
                Some(wqe)
            }
            Source::Ring(ring) => wqe::take_recv(ring, self.max_sge, &mut *self.list),
            Source::Shared(srq) => srq.take(&mut *self.list),
        }
    }
}
