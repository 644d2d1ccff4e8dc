// SPDX-License-Identifier: GPL-2.0
// error: this function takes 5 arguments but 4 arguments were supplied

//! A completion handler creates a queue, which may sleep.

use rdma::client::{
    cq::{CqRef, OnCompletions, PollContext},
    Cq,
};

/// Makes a queue.
pub struct Careless;

impl OnCompletions for Careless {
    fn completions(&self, cq: &CqRef<'_>) {
        let _ = Cq::new(cq.device(), 1, 0, PollContext::Direct);
    }
}
