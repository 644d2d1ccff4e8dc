// SPDX-License-Identifier: GPL-2.0

//! What a handler of completions may own and drop: it is destroyed later, elsewhere. The same for what a timer calls.

use kernel::{prelude::*, sync::Arc};
use rdma::client::{
    dma::{Bidirectional, Buffer, Pages},
    qp::{QpHandle, Rc, Rts},
    srq::SrqHandle,
    timer::OnTick,
    work::{Completion, Handler},
    Ah, Cq, Device, Mr, Pd, Work,
};

/// Has one of each.
pub struct Owning<'d> {
    /// A device.
    pub device: Device<'d>,
    /// A protection domain.
    pub pd: Pd<'d>,
    /// A completion queue.
    pub cq: Arc<Cq<'d>>,
    /// An address handle.
    pub ah: Ah<'d>,
    /// A memory region.
    pub mr: Mr<'d>,
    /// Memory in one piece.
    pub buffer: Buffer<'d>,
    /// Pages.
    pub pages: Arc<Pages<'d, Bidirectional>>,
    /// For posting.
    pub qp: QpHandle<'d, Rc, Rts>,
    /// For posting.
    pub srq: SrqHandle<'d>,
}

impl<'d> Handler<'d> for Owning<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, _completion: &Completion<'_, 'd>) {
        drop(work);
    }
}

/// Has all of that, for once.
pub struct Once<'d>(Option<Owning<'d>>);

impl OnTick for Once<'_> {
    fn tick(&mut self) -> Option<u64> {
        self.0 = None;
        None
    }
}
