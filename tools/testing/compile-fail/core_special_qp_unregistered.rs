// SPDX-License-Identifier: GPL-2.0
// error: mismatched types

//! Special queue pairs of a device that may be unregistered while they are there.

use kernel::prelude::*;
use rdma::core::{
    mad::qp::{Depths, MadLayer, SpecialKind, SpecialQps},
    Device,
};
use rdma::MaySleep;

/// Makes none.
pub fn make<L: MadLayer, I: PinInit<L::Queue, Error>>(
    device: &Device,
    queue: impl Fn(SpecialKind) -> I,
    sleep: &MaySleep,
) -> Result<SpecialQps<L>> {
    let depths = Depths { send: 1, recv: 1 };
    SpecialQps::new(device, 1, &[SpecialKind::Gsi], depths, queue, sleep)
}
