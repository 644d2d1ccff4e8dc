// SPDX-License-Identifier: GPL-2.0
// error: borrow of moved value: `qp`

//! A queue pair is used after it has become another.

use kernel::prelude::*;
use rdma::{
    client::{
        qp::{Rc, Rts},
        Qp,
    },
    MaySleep,
};

/// Puts a queue pair in error, and goes on with it.
pub fn stop<'d>(qp: Qp<'d, Rc, Rts>, sleep: &MaySleep) -> Result<u32> {
    drop(qp.into_err(sleep)?);
    Ok(qp.number())
}
