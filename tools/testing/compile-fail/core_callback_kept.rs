// SPDX-License-Identifier: GPL-2.0
// error: lifetime may not live long enough

//! The core keeps the callback of a call, to join it with the context of another one.

use rdma::core::callback::Handler;

/// Keeps a callback.
pub fn keep<F>(call: Handler<'_, F>) -> Handler<'static, F> {
    call
}
