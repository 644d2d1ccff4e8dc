// SPDX-License-Identifier: GPL-2.0
// error: named `Read` found for enum `UcOp

//! A queue pair of an unreliable connection reads the peer's memory.

use kernel::prelude::*;
use rdma::{
    abi::wr::Remote,
    client::{
        op::UcOp,
        qp::{Qp, Rts, Uc},
        work::Handler,
        Work,
    },
};

/// Reads.
pub fn read<'d, H: Handler<'d>>(qp: &Qp<'d, Uc, Rts>, work: Pin<KBox<Work<'d, H>>>, from: Remote) {
    let _ = qp.post_send(work, UcOp::Read(from));
}
