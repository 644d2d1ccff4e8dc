// SPDX-License-Identifier: GPL-2.0

//! Queue pairs for which a test waits until their requests are completed.

use core::sync::atomic::{AtomicUsize, Ordering};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::sync::{new_spinlock_irq, Completion as Done, SpinLockIrq};
use rdma::{
    abi::ah::GlobalRoute,
    client::{
        cq::PollContext,
        qp::{Config, ConnectedInit, Init, Peer, Qp, Rc, Reset, Rts, Sending, Transport},
        work::{Completion, Handler, Source},
        Cq, Device, Mr, Pd, Srq, Work,
    },
    Access, AhFields, Gid, MaySleep, Mtu, WcOpcode, WcStatus,
};

use crate::{ensure, PORT};

/// The outcome of a request.
pub(crate) struct Outcome<'d> {
    pub(crate) status: WcStatus,
    pub(crate) opcode: Option<WcOpcode>,
    pub(crate) length: u32,
    pub(crate) immediate: Option<[u8; 4]>,
    pub(crate) invalidated: Option<u32>,
    pub(crate) source: Source,
    /// The request, if it has succeeded.
    pub(crate) work: Option<Pin<KBox<Work<'d, Probe<'d>>>>>,
}

/// The capacity of a sink, in outcomes.
const ROOM: usize = 64;

/// Where tests wait for outcomes.
#[pin_data]
pub(crate) struct Sink<'d> {
    #[pin]
    outcomes: SpinLockIrq<KVec<Outcome<'d>>>,
    #[pin]
    some: Done,
    /// The number of completed requests.
    count: AtomicUsize,
    /// A region that peers may invalidate, and the number of recorded invalidations.
    watched: Option<Arc<Mr<'d>>>,
    noted: AtomicUsize,
}

impl<'d> Sink<'d> {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Self::watching(None)
    }

    /// One that notes when a region is invalidated.
    pub(crate) fn watching(watched: Option<Arc<Mr<'d>>>) -> Result<Arc<Self>> {
        let room = KVec::with_capacity(ROOM, GFP_KERNEL)?;
        let init = pin_init!(Self {
            outcomes <- new_spinlock_irq!(room, "Sink::outcomes"),
            some <- Done::new(),
            count: AtomicUsize::new(0),
            watched,
            noted: AtomicUsize::new(0),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// The number of completed requests.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The number of recorded invalidations of the region.
    pub(crate) fn noted(&self) -> usize {
        self.noted.load(Ordering::SeqCst)
    }

    /// Waits for the next outcome.
    pub(crate) fn wait(&self, sleep: &MaySleep) -> Result<Outcome<'d>> {
        self.wait_with(sleep, || {})
    }

    /// As above, polling repeatedly by `poll`.
    pub(crate) fn wait_with(
        &self,
        sleep: &MaySleep,
        mut poll: impl FnMut(),
    ) -> Result<Outcome<'d>> {
        for _ in 0..1000 {
            poll();
            if self.some.wait_timeout(10, sleep) {
                let mut outcomes = self.outcomes.lock();
                return outcomes.remove(0).map_err(|_| EIO);
            }
        }
        pr_info!("  nothing was completed for ten seconds\n");
        Err(ETIMEDOUT)
    }

    /// Waits for the next outcome, which must be a success.
    pub(crate) fn success(&self, sleep: &MaySleep) -> Result<Outcome<'d>> {
        let outcome = self.wait(sleep)?;
        ensure!(outcome.status == WcStatus::Success, "{:?}", outcome.status);
        Ok(outcome)
    }
}

/// Adds the outcome of a request to a sink.
pub(crate) struct Probe<'d>(pub(crate) Arc<Sink<'d>>);

impl<'d> Handler<'d> for Probe<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let sink = work.handler().0.clone();
        let outcome = Outcome {
            status: completion.status(),
            opcode: completion.opcode(),
            length: completion.length(),
            immediate: completion.immediate(),
            invalidated: completion.invalidated().map(|told| told.key()),
            source: completion.source(),
            work: completion.is_success().then_some(work),
        };
        if let Some(mr) = &sink.watched {
            let invalidated = completion.invalidated();
            if invalidated.is_some_and(|told| mr.note_invalidated(told)) {
                sink.noted.fetch_add(1, Ordering::SeqCst);
            }
        }
        sink.count.fetch_add(1, Ordering::SeqCst);
        let kept = sink.outcomes.lock().push_within_capacity(outcome);
        if kept.is_ok() {
            sink.some.complete();
        }
    }
}

/// Drops the outcomes that no test has taken, each of which has a reference to its sink.
pub(crate) struct Emptied<'d>(pub(crate) Arc<Sink<'d>>);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        let outcomes = core::mem::take(&mut *self.0.outcomes.lock());
        drop(outcomes);
    }
}

impl<'d> core::ops::Deref for Emptied<'d> {
    type Target = Arc<Sink<'d>>;

    fn deref(&self) -> &Arc<Sink<'d>> {
        &self.0
    }
}

/// The objects that queue pairs of a device are created with.
pub(crate) struct Node<'d> {
    pub(crate) device: Device<'d>,
    pub(crate) pd: Pd<'d>,
    pub(crate) cq: Arc<Cq<'d>>,
    pub(crate) sent: Emptied<'d>,
    pub(crate) received: Emptied<'d>,
}

impl<'d> Node<'d> {
    pub(crate) fn new(device: &Device<'d>, context: PollContext, sleep: &MaySleep) -> Result<Self> {
        Self::with_cq(device, Cq::new(device, 128, 0, context, sleep)?, sleep)
    }

    /// One of each device.
    pub(crate) fn two<'a>(
        from: &Device<'a>,
        to: &Device<'d>,
        context: PollContext,
        sleep: &MaySleep,
    ) -> Result<(Node<'a>, Self)> {
        Ok((
            Node::new(from, context, sleep)?,
            Self::new(to, context, sleep)?,
        ))
    }

    pub(crate) fn with_cq(device: &Device<'d>, cq: Arc<Cq<'d>>, sleep: &MaySleep) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            pd: Pd::new(device, sleep)?,
            cq,
            sent: Emptied(Sink::new()?),
            received: Emptied(Sink::new()?),
        })
    }

    pub(crate) fn qp<T: Transport>(
        &self,
        srq: Option<&Arc<Srq<'d>>>,
        sleep: &MaySleep,
    ) -> Result<Qp<'d, T, Reset>> {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: 16,
            max_receives: 16,
            max_pieces: 4,
            srq,
            events: None,
        };
        Qp::new(&self.pd, config, sleep)
    }

    /// A request to send with this memory.
    pub(crate) fn message(&self, bytes: &[u8], sleep: &MaySleep) -> Result<Request<'d>> {
        let mut work = self.room(bytes.len() as u32, &self.sent, sleep)?;
        work.as_mut().write(bytes);
        Ok(work)
    }

    /// A request with this much memory, for a sink.
    pub(crate) fn room(
        &self,
        length: u32,
        sink: &Arc<Sink<'d>>,
        sleep: &MaySleep,
    ) -> Result<Request<'d>> {
        Work::new(&self.device, length, Probe(sink.clone()), sleep)
    }
}

/// A request whose outcome the test waits for.
pub(crate) type Request<'d> = Pin<KBox<Work<'d, Probe<'d>>>>;

/// The GID and the MAC address of a device's port.
#[derive(Clone, Copy)]
pub(crate) struct PortAddress {
    gid: Gid,
    mac: [u8; 6],
}

impl PortAddress {
    pub(crate) fn of(device: &Device<'_>) -> Result<Self> {
        let gid = device.gid(PORT, 0)?;
        Ok(Self {
            gid: gid.gid(),
            mac: gid.mac()?,
        })
    }

    /// The path to it.
    pub(crate) fn path(&self) -> AhFields {
        AhFields {
            grh: Some(GlobalRoute {
                dgid: self.gid,
                hop_limit: 1,
                ..GlobalRoute::default()
            }),
            port_num: PORT,
            dmac: self.mac,
            ..AhFields::default()
        }
    }
}

/// The access that a peer has in these tests.
pub(crate) const CONNECTED: ConnectedInit = ConnectedInit {
    port: PORT,
    pkey_index: 0,
    access: Access::LOCAL_WRITE
        .with(Access::REMOTE_WRITE)
        .with(Access::REMOTE_READ)
        .with(Access::REMOTE_ATOMIC),
};

/// The initial PSN.
pub(crate) const PSN: u32 = 0xff_fffe;

/// Connects an initialised queue pair.
pub(crate) fn connect<'d>(
    qp: Qp<'d, Rc, Init>,
    place: &PortAddress,
    qp_num: u32,
    sleep: &MaySleep,
) -> Result<Qp<'d, Rc, Rts>> {
    let peer = Peer {
        path: place.path(),
        mtu: Mtu::B1024,
        qp_num,
        psn: PSN,
        reads: 4,
        rnr_timer: 1,
    };
    let sending = Sending {
        psn: PSN,
        reads: 4,
        timeout: 14,
        retries: 7,
        rnr_retries: 7,
    };
    Ok(qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?)
}

/// A reliable connection between two devices.
pub(crate) struct Connection<'a, 'b> {
    pub(crate) from_qp: Qp<'a, Rc, Rts>,
    pub(crate) to_qp: Qp<'b, Rc, Rts>,
    pub(crate) from: Node<'a>,
    pub(crate) to: Node<'b>,
}

impl<'a, 'b> Connection<'a, 'b> {
    /// With completions that are polled in work items.
    pub(crate) fn new(from: &Device<'a>, to: &Device<'b>, sleep: &MaySleep) -> Result<Self> {
        Self::polled(from, to, PollContext::WorkQueue, sleep)
    }

    /// With completions that are polled in this context.
    pub(crate) fn polled(
        from: &Device<'a>,
        to: &Device<'b>,
        context: PollContext,
        sleep: &MaySleep,
    ) -> Result<Self> {
        Self::between(Node::two(from, to, context, sleep)?, sleep)
    }

    pub(crate) fn between((from, to): (Node<'a>, Node<'b>), sleep: &MaySleep) -> Result<Self> {
        let from_qp = from.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
        let to_qp = to.qp::<Rc>(None, sleep)?.into_init(&CONNECTED, sleep)?;
        let numbers = (from_qp.number(), to_qp.number());
        let places = (PortAddress::of(&from.device)?, PortAddress::of(&to.device)?);
        Ok(Self {
            from_qp: connect(from_qp, &places.1, numbers.1, sleep)?,
            to_qp: connect(to_qp, &places.0, numbers.0, sleep)?,
            from,
            to,
        })
    }

    /// The receiver posts a receive for a message.
    pub(crate) fn expect(&self, length: u32, sleep: &MaySleep) -> Result {
        let work = self.to.room(length, &self.to.received, sleep)?;
        Ok(self.to_qp.post_receive(work)?)
    }
}

/// Whether a request has received these bytes.
pub(crate) fn has_bytes(outcome: &Outcome<'_>, bytes: &[u8]) -> bool {
    let got = outcome.work.as_ref().map(|work| work.bytes());
    outcome.length as usize == bytes.len()
        && got.and_then(|got| got.get(..bytes.len())) == Some(bytes)
}
