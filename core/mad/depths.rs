// SPDX-License-Identifier: GPL-2.0

//! Sizes of the special queue pairs' queues: the module parameters `send_queue_size` and `recv_queue_size`.
//!
//! C header: `include/rdma/ib_mad.h`.

use core::sync::atomic::{AtomicI32, Ordering};

use kernel_ext::param::int_param;
use rdma::core::mad::qp::Depths;

static SEND: AtomicI32 = AtomicI32::new(128);
static RECV: AtomicI32 = AtomicI32::new(RECV_DEFAULT as i32);

/// Default size of the receive queue.
pub(super) const RECV_DEFAULT: u32 = 512;

int_param!(
    c"send_queue_size",
    SEND,
    b"parmtype=send_queue_size:int\0parm=send_queue_size:Size of send queue in number of work requests\0"
);
int_param!(
    c"recv_queue_size",
    RECV,
    b"parmtype=recv_queue_size:int\0parm=recv_queue_size:Size of receive queue in number of work requests\0"
);

/// Lower and upper limit of a queue's size.
const LIMITS: (i32, i32) = (64, 8192);

fn limited(parameter: &AtomicI32) -> u32 {
    let (min, max) = LIMITS;
    parameter.load(Ordering::Relaxed).clamp(min, max) as u32
}

/// The depths, in requests.
pub(super) fn get() -> Depths {
    Depths {
        send: limited(&SEND),
        recv: limited(&RECV),
    }
}
