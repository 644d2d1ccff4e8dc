// SPDX-License-Identifier: GPL-2.0

//! A handler of completions posts its request again: that compiles.

use kernel::prelude::*;
use rdma::{
    verbs::work::{Completion, Handler, Work},
    WcStatus,
};

/// Receives for ever.
pub struct Receiver;

impl Handler for Receiver {
    fn done(work: Pin<KBox<Work<Self>>>, completion: &Completion<'_>) {
        if completion.status() == WcStatus::Success {
            let _ = completion.qp().post_receive(work);
        }
    }
}
