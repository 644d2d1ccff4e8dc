// SPDX-License-Identifier: GPL-2.0
// error: borrow of moved value: `work`

//! Memory is read that a device may be writing: its request is posted, and not completed.

use kernel::prelude::*;
use rdma::client::{
    qp::{Init, QpRef, Rc},
    work::Handler,
    Work,
};

/// Posts a request to receive, and looks at its memory.
pub fn peek<'d, H: Handler<'d>>(
    qp: &QpRef<'d, Rc, Init>,
    work: Pin<KBox<Work<'d, H>>>,
) -> Option<u8> {
    let posted = qp.post_receive(work);
    let first = work.bytes().first().copied();
    posted.is_ok().then_some(first?)
}
