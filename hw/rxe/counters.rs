// SPDX-License-Identifier: GPL-2.0

//! Hardware counters of a port: `ports/1/hw_counters/` and `rdma statistic`.
//!
//! The names and their order are those of the C driver, because scripts read them, and then those that other drivers have.

use core::sync::atomic::{AtomicU64, Ordering};
use kernel::prelude::*;

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

/// The counters of one port; may be used in any context.
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
