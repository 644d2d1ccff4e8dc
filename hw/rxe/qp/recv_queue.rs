// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair: requests in a user ring, of a kernel consumer, or of a shared receive queue.

use crate::ids::{PdId, XrcdId};
use crate::limits;
use crate::ring::Consumer;
use crate::srq::{Broken, Srq};
use crate::wqe::{self, Inbox, RecvWqe};
use core::sync::atomic::{AtomicU32, Ordering};
use kernel::prelude::*;
use kernel::sync::{rcu, Arc};
use kernel_ext::sync::SpinLockIrq;
use kernel_ext::xarray::Table;
use rdma::RecvWrs;

/// Maximum size of a receive request's list.
const MAX_LIST: usize = limits::MAX_SGE as usize * limits::SGE;

/// Source of receives.
pub(crate) enum Source {
    /// Requests posted by a kernel consumer.
    Posted,
    /// A user ring.
    Ring(Consumer),
    /// A shared receive queue.
    Shared(Arc<Srq>),
    /// Of a target of XRC: the shared receive queue of its domain that requests name.
    Named {
        domain: XrcdId,
        /// The one of the current receive, or that was named last.
        srq: Option<Arc<Srq>>,
    },
    /// Of an initiator of XRC: none.
    Nothing,
}

/// There is no such shared receive queue in the domain.
pub(super) struct Unknown;

/// The source of receives, and the current one. Protected by the engine's lock.
pub(crate) struct RecvQueue {
    source: Source,
    max_sge: u32,
    /// The protection domain of the lists.
    pub(super) pd: PdId,
    /// The protection domain of the peer's requests: that of the queue pair, or of the shared receive queue that a request of XRC
    /// names.
    pub(super) remote_pd: PdId,
    pub(super) current: Option<Current>,
    /// The scatter list of the current receive.
    pub(super) list: KBox<[u8; MAX_LIST]>,
}

/// The current receive of the responder.
#[derive(Clone, Copy)]
pub(super) struct Current {
    pub(super) wr_id: u64,
    pub(super) num_sge: u32,
}

impl RecvQueue {
    /// Creates a queue for the requests of `source`, with up to `max_sge` elements; requests of a shared queue have
    /// that queue's limit and protection domain. Sleeps.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(source: Source, max_sge: u32, pd: PdId) -> Result<Self> {
        let list = KBox::new([0; MAX_LIST], GFP_KERNEL)?;
        let list_pd = match &source {
            Source::Shared(srq) => srq.pd(),
            _ => pd,
        };
        Ok(Self {
            source,
            max_sge,
            pd: list_pd,
            remote_pd: pd,
            current: None,
            list,
        })
    }

    /// Whether receives are those of shared queues.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.source, Source::Shared(_) | Source::Named { .. })
    }

    /// The next request names a shared receive queue. If there is a current receive, its queue is the same one, or the request is a
    /// duplicate, which takes none.
    ///
    /// # Errors
    ///
    /// [`Unknown`]: not in the domain.
    pub(super) fn name(&mut self, srqs: &Table<Srq>, number: u32) -> Result<(), Unknown> {
        let Source::Named { domain, srq } = &mut self.source else {
            return Err(Unknown);
        };
        if let Some(known) = srq.as_ref().filter(|srq| srq.number() == number) {
            // It is forgotten before it is destroyed.
            self.remote_pd = known.pd();
            return Ok(());
        }
        let guard = rcu::read_lock();
        let found = srqs.get(number, &guard).ok_or(Unknown)?;
        if !found.is_of(*domain) {
            return Err(Unknown);
        }
        self.remote_pd = found.pd();
        if self.current.is_none() {
            *srq = Some(found.into());
        }
        Ok(())
    }

    /// The shared receive queue of the current receive, for a target of XRC.
    pub(super) fn named(&self) -> Option<&Arc<Srq>> {
        match &self.source {
            Source::Named { srq, .. } => srq.as_ref(),
            _ => None,
        }
    }

    /// Drops the shared receive queue that was named, with the current receive.
    pub(super) fn forget_named(&mut self) {
        if let Source::Named { srq, .. } = &mut self.source {
            *srq = None;
            self.current = None;
        }
    }

    /// Drops all requests, except for those in a shared queue.
    pub(crate) fn reset(&mut self) {
        self.forget_named();
        self.current = None;
        if let Source::Ring(ring) = &mut self.source {
            ring.clear();
        }
    }

    /// Writes requests of the uverbs command to the user ring.
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

    /// The number of requests that are posted, `outstanding` of a kernel consumer. `None` for shared queues: they are for any queue
    /// pair.
    pub(super) fn posted(&self, outstanding: &AtomicU32) -> Option<u32> {
        match &self.source {
            Source::Posted => Some(outstanding.load(Ordering::Acquire)),
            Source::Ring(ring) => Some(ring.available()),
            Source::Shared(_) | Source::Named { .. } | Source::Nothing => None,
        }
    }

    /// Takes the next request and its list; for a kernel consumer, from those that it has `posted`, whose number is
    /// `outstanding`.
    ///
    /// # Errors
    ///
    /// [`Broken`] of a shared receive queue.
    pub(super) fn take(
        &mut self,
        posted: &SpinLockIrq<Inbox<RecvWqe>>,
        outstanding: &AtomicU32,
    ) -> Result<Option<RecvWqe>, Broken> {
        Ok(match &mut self.source {
            Source::Posted => {
                let wqe = posted.lock().take(&mut *self.list);
                if wqe.is_some() {
                    outstanding.fetch_sub(1, Ordering::AcqRel);
                }
                wqe
            }
            Source::Ring(ring) => wqe::take_recv(ring, self.max_sge, &mut *self.list),
            Source::Shared(srq) => return srq.take(&mut *self.list),
            Source::Named { srq: Some(srq), .. } => {
                self.pd = srq.pd();
                return srq.take(&mut *self.list);
            }
            Source::Named { srq: None, .. } | Source::Nothing => None,
        })
    }

    /// Whether it is a shared one that is in error. Of those that requests name, one says so when a receive is taken from it.
    #[inline]
    pub(super) fn is_broken(&self) -> bool {
        matches!(&self.source, Source::Shared(srq) if srq.is_broken())
    }
}
