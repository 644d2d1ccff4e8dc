// SPDX-License-Identifier: GPL-2.0

//! Timeouts and retries of the requester, after silence of the peer, a loss, or an RNR NAK (IBTA volume 1, 9.7.5.2.8 and 9.7.6.1).

use crate::memory::SendOps;
use crate::requester::{Requester, Unasked, Wait};
use crate::state::{Counter, Time, WcStatus, RNR_RETRY_INFINITE};
use crate::timer::{FIRST_RNR_PAUSE, LONGEST_RNR_PAUSE};

impl Requester {
    /// Handles the deadline.
    pub(crate) fn expire<O: SendOps>(&mut self, now: Time, ops: &mut O) {
        match self.wait {
            Wait::Answer(time) if time <= now => {
                self.probing = true;
                self.timeouts = self.timeouts.saturating_add(1);
                self.retry(ops);
            }
            Wait::Receiver(time) if time <= now => self.wait = Wait::Nothing,
            _ => {}
        }
    }

    /// Starts the timer for a response.
    #[inline]
    pub(crate) fn start_timer(&mut self, now: Time) {
        self.wait = match self.attr.ack_timeout.nanoseconds_after(self.timeouts) {
            Some(timeout) => Wait::Answer(now.after(timeout)),
            None => Wait::Nothing,
        };
    }

    /// Handles progress by new responses: resets the retry counters and the timer.
    #[inline]
    pub(crate) fn progressed(&mut self, now: Time) {
        self.refill_retries();
        self.recovering = false;
        self.probing = false;
        if self.next.is_before(&self.oldest) {
            self.next = self.oldest;
            self.reads = 0;
        }
        match self.wait {
            Wait::Receiver(_) => {}
            _ if self.outstanding() == 0 => self.wait = Wait::Nothing,
            _ => self.start_timer(now),
        }
    }

    pub(crate) fn refill_retries(&mut self) {
        self.retries_left = self.attr.retry_cnt;
        self.timeouts = 0;
        self.rnr_left = self.attr.rnr_retry;
        self.rnr_pause = FIRST_RNR_PAUSE;
    }

    /// Goes back to the oldest unacknowledged packet.
    fn go_back<O: SendOps>(&mut self, ops: &mut O) {
        ops.count(Counter::CompleterRetry);
        self.next = self.oldest;
        self.reads = 0;
        self.unasked = Unasked::NOTHING;
        self.recovering = true;
        self.wait = Wait::Nothing;
    }

    /// Handles a loss: retries, if the retry counter allows (IBTA volume 1, 9.7.6.1), or else on the alternate path (17.2.8).
    pub(crate) fn retry<O: SendOps>(&mut self, ops: &mut O) {
        let Some(left) = self.retries_left.checked_sub(1) else {
            return self.give_up(ops);
        };
        self.retries_left = left;
        self.go_back(ops);
    }

    /// The retries on a path are exhausted: takes the alternate path, if there is one, or fails.
    #[cold]
    fn give_up<O: SendOps>(&mut self, ops: &mut O) {
        let Some(path) = ops.migrate() else {
            ops.count(Counter::RetryExceeded);
            return self.fail(WcStatus::RetryExcErr, ops);
        };
        self.take_path(path);
        self.go_back(ops);
    }

    /// Handles an implied NAK; further ones of the same loss are ignored.
    pub(crate) fn retry_implied<O: SendOps>(&mut self, ops: &mut O) {
        if !self.recovering && !matches!(self.wait, Wait::Receiver(_)) {
            self.retry(ops);
        }
    }

    /// Handles an RNR NAK: retries after `delay` nanoseconds or the present pause, whichever is longer, if the RNR
    /// counter allows (IBTA volume 1, 9.7.5.2.8: the delay is a minimum).
    pub(crate) fn retry_later<O: SendOps>(&mut self, delay: u64, now: Time, ops: &mut O) {
        if self.attr.rnr_retry != RNR_RETRY_INFINITE {
            let Some(left) = self.rnr_left.checked_sub(1) else {
                ops.count(Counter::RnrRetryExceeded);
                return self.fail(WcStatus::RnrRetryExcErr, ops);
            };
            self.rnr_left = left;
        }
        self.go_back(ops);
        self.wait = Wait::Receiver(now.after(delay.max(self.rnr_pause)));
        self.rnr_pause = self.rnr_pause.saturating_mul(2).min(LONGEST_RNR_PAUSE);
    }
}
