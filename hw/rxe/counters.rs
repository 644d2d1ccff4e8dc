// SPDX-License-Identifier: GPL-2.0

//! Hardware counters of a port: `ports/<number>/hw_counters/` and `rdma statistic`.
//!
//! A queue pair counts for its port, or for a counter that it is bound to (`rdma statistic qp`), which has the same values. It has a
//! reference to one or the other, so that counting is the same.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `PortCounters::bound` | the counters that queue pairs are bound to, and what those have counted that are gone | any, interrupts off | nothing |
//!
//! The names and their order are those of the C driver, because scripts read them, and then those that other drivers have.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::sync::{new_spinlock_irq, SpinLockIrq};
use rdma::MaySleep;

macro_rules! counters {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)*) => {
        /// A hardware counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Counter {
            $($(#[$meta])* $variant,)*
        }

        /// The counters' names in sysfs and netlink, in the order of [`Counter`].
        pub(crate) const NAMES: &[&CStr] = &[$($name),*];
    };
}

counters! {
    /// Packets passed to the network, including loopback.
    SentPackets = c"sent_pkts",
    /// Packets received for this device.
    ReceivedPackets = c"rcvd_pkts",
    /// Duplicate requests at the responder.
    DuplicateRequest = c"duplicate_request",
    /// Requests whose PSN was ahead of the expected one.
    OutOfSequenceRequest = c"out_of_seq_request",
    /// RNR NAKs received.
    ReceivedRnr = c"rcvd_rnr_err",
    /// RNR NAKs sent because no receive was posted.
    SentRnr = c"send_rnr_err",
    /// PSN sequence error NAKs received.
    ReceivedSequenceError = c"rcvd_seq_err",
    /// Acknowledgements whose processing was deferred.
    #[expect(dead_code, reason = "no handling is put off here, but the name is expected")]
    AckDeferred = c"ack_deferred",
    /// Work requests that ran out of transport retries.
    RetryExceeded = c"retry_exceeded_err",
    /// Work requests that ran out of RNR retries.
    RnrRetryExceeded = c"retry_rnr_exceeded_err",
    /// Retransmissions started by the completer.
    CompleterRetry = c"completer_retry_err",
    /// Packets that the network stack did not accept.
    SendError = c"send_err",
    /// Times that the net device lost its link.
    LinkDowned = c"link_downed",
    /// SEND and RDMA requests whose last packet was sent.
    RdmaSends = c"rdma_sends",
    /// SEND and RDMA requests whose last packet was received.
    RdmaReceives = c"rdma_recvs",
    /// Bytes sent, from the IP header on.
    SentBytes = c"sent_bytes",
    /// Bytes received, from the IP header on.
    ReceivedBytes = c"rcvd_bytes",
    // What the C driver has not, as hardware names it.
    /// Congestion notifications that had no effect: nobody's, too soon after another one, or without congestion control.
    CnpIgnored = c"rp_cnp_ignored",
    /// Congestion notifications that lowered the rate of a queue pair.
    CnpHandled = c"rp_cnp_handled",
    /// Packets received for queue pairs with congestion control that a queue on their way has marked.
    EcnMarked = c"np_ecn_marked_roce_packets",
    /// Congestion notifications sent.
    CnpSent = c"np_cnp_sent",
}

/// Number of counters.
pub(crate) const COUNT: usize = NAMES.len();

/// Counters of a port, or of queue pairs; may be used in any context.
#[derive(Default)]
pub(crate) struct Counters([AtomicU64; COUNT]);

impl Counters {
    /// Adds `n` to a counter, which wraps at 2^64.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        if let Some(value) = self.0.get(counter as usize) {
            value.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts received packets, of so many bytes together.
    #[inline]
    pub(crate) fn received(&self, packets: u64, bytes: u64) {
        self.add(Counter::ReceivedPackets, packets);
        self.add(Counter::ReceivedBytes, bytes);
    }

    /// Counts sent packets, of so many bytes together.
    #[inline]
    pub(crate) fn sent(&self, packets: u64, bytes: u64) {
        self.add(Counter::SentPackets, packets);
        self.add(Counter::SentBytes, bytes);
    }

    /// A counter's value.
    #[inline]
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0
            .get(counter as usize)
            .map_or(0, |value| value.load(Ordering::Relaxed))
    }

    /// All values, in the order of [`NAMES`].
    pub(crate) fn values(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|value| value.load(Ordering::Relaxed))
    }
}

/// What queue pairs have counted that are bound to counters.
#[derive(Default)]
struct Bound {
    /// The counters with their numbers.
    live: KVec<(NonZeroU32, Arc<Counters>)>,
    /// The sums of those that are gone.
    gone: Counters,
}

impl Bound {
    /// A number that no counter has, not one that was freed a short time ago. `last`: the last one of the device.
    fn free_number(&self, last: &AtomicU32) -> NonZeroU32 {
        loop {
            let number = NonZeroU32::new(last.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
            let unused = |number: &_| self.live.iter().all(|(used, _)| used != number);
            if let Some(number) = number.filter(unused) {
                return number;
            }
        }
    }
}

/// All counters of a port.
#[pin_data]
pub(crate) struct PortCounters {
    /// What is not counted for a counter that queue pairs are bound to.
    own: Arc<Counters>,
    #[pin]
    bound: SpinLockIrq<Bound>,
}

impl PortCounters {
    /// Counters with the value 0.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            own: Arc::new(Counters::default(), GFP_KERNEL)?,
            bound <- new_spinlock_irq!(Bound::default(), "rxe_counters::bound"),
        })
    }

    /// What is not counted for a counter that queue pairs are bound to: the port's own, in the sense of the core, which adds the rest.
    #[inline]
    pub(crate) fn own(&self) -> &Arc<Counters> {
        &self.own
    }

    /// Adds counters for queue pairs. Returns their number, too, which follows the `last` one of the device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(
        &self,
        last: &AtomicU32,
        _sleep: &MaySleep,
    ) -> Result<(NonZeroU32, Arc<Counters>)> {
        let new = Arc::new(Counters::default(), GFP_KERNEL)?;
        let mut bound = self.bound.lock();
        let number = bound.free_number(last);
        bound.live.push((number, new.clone()), GFP_ATOMIC)?;
        Ok((number, new))
    }

    /// Removes counters of the port, if it has this number, that no queue pair is bound to any more. The port has counted what they
    /// have.
    pub(crate) fn remove(&self, number: u32) {
        let mut bound = self.bound.lock();
        let nth = bound.live.iter().position(|(it, _)| it.get() == number);
        let Some(Ok((_, counters))) = nth.map(|nth| bound.live.remove(nth)) else {
            return;
        };
        for (sum, value) in bound.gone.0.iter_mut().zip(counters.values()) {
            *sum.get_mut() = sum.get_mut().wrapping_add(value);
        }
        drop(bound);
        drop(counters);
    }

    /// What the port has counted, for whatever counter. Any context.
    pub(crate) fn total(&self, counter: Counter) -> u64 {
        let bound = self.bound.lock();
        let all = bound.live.iter().map(|(_, counters)| &**counters);
        let all = Iterator::chain(all, [&bound.gone, &*self.own]);
        all.fold(0, |sum, counters| sum.wrapping_add(counters.get(counter)))
    }
}
