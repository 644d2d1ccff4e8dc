// SPDX-License-Identifier: GPL-2.0

//! A client in full: the others in this folder whose names begin with `client_` each do one thing of it wrong.

use kernel::{prelude::*, sync::Arc};
use rdma::{
    client::{
        ah::GRH_LENGTH,
        cq::{CqRef, OnCompletions, PollContext},
        dma::{Buffer, Pages},
        op::{RcOp, UdOp},
        qp::{CanReceive, Config, ConnectedInit, Peer, QpHandle, QpRef, Rc, Rts, Sending, Ud},
        srq::{self, SrqHandle},
        table::{Registration, Table},
        timer::{Context, OnTick, Timer},
        work::{Completion, Handler, Source},
        Ah, Client, Cq, Device, Mr, Pd, Qp, Srq, Work,
    },
    Access, AhFields, MaySleep, NotifyFlags, WcStatus,
};

/// Receives for ever.
pub struct Receiver;

impl<'d> Handler<'d> for Receiver {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if completion.status() != WcStatus::Success {
            return;
        }
        if let Some(qp) = completion.receiver::<Rc>() {
            let _ = qp.post_receive(work);
        }
    }
}

/// Answers each message, and has what that needs.
pub struct Answering<'d> {
    peer: QpHandle<'d, Rc, Rts>,
    more: SrqHandle<'d>,
    pd: Pd<'d>,
    cq: Arc<Cq<'d>>,
    path: AhFields,
}

impl<'d> Handler<'d> for Answering<'d> {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let _ = work.handler().cq.poll(1);
        let _ = Ah::new_atomic(&work.handler().pd, &work.handler().path);
        match completion.sender::<Rc>() {
            Some(qp) => {
                let _ = qp.post_send(work, RcOp::SendImm([0; 4]));
            }
            None if work.bytes().is_empty() => {
                let peer = work.handler().peer.clone();
                let _ = peer.post_send(work, RcOp::Send);
            }
            None => {
                let more = work.handler().more.clone();
                let _ = more.post_receive(work);
            }
        }
    }
}

/// Polls when there is something.
pub struct Polling;

impl OnCompletions for Polling {
    fn completions(&self, cq: &CqRef<'_>) {
        let _ = cq.poll(16);
        let _ = cq.arm(NotifyFlags::NEXT_COMP);
    }
}

/// Posts from an interrupt.
pub struct Ticking<'d>(QpHandle<'d, Rc, Rts>, Option<Pin<KBox<Work<'d, Receiver>>>>);

impl OnTick for Ticking<'_> {
    fn tick(&mut self) -> Option<u64> {
        self.0.post_send(self.1.take()?, RcOp::Send).ok()?;
        Some(1_000_000)
    }
}

/// What the client has of a device.
pub struct Data<'d> {
    /// A queue pair.
    pub qp: Qp<'d, Rc, Rts>,
    /// A timer.
    pub timer: Timer<'d, Ticking<'d>>,
}

/// The client.
pub struct Example;

static TABLE: Table<Example> = Table::new();

impl Client for Example {
    type Data<'d> = Data<'d>;

    const NAME: &'static CStr = c"example";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Data<'d>> {
        let pd = Pd::new(device, sleep)?;
        let cq = Cq::new(device, 32, 0, PollContext::SoftIrq, sleep)?;
        let _told = Cq::notified(device, 32, 0, Polling, sleep)?;
        let config = Config {
            send_cq: &cq,
            recv_cq: &cq,
            max_sends: 8,
            max_receives: 8,
            max_pieces: 2,
            srq: None,
            events: None,
        };
        let init = ConnectedInit {
            port: 1,
            pkey_index: 0,
            access: Access::REMOTE_WRITE,
        };
        let qp = Qp::<Rc, _>::new(&pd, config, sleep)?.into_init(&init, sleep)?;
        let mut receives = qp.receive_chain::<_, 2>();
        receives.push(Work::new(device, 64, Receiver, sleep)?)?;
        receives.post()?;
        let peer = exchange(device, qp.number())?;
        let sending = Sending {
            psn: 0,
            reads: 1,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
        };
        let qp = qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?;
        let mut work = Work::new(device, 64, Receiver, sleep)?;
        let piece = Buffer::new(device, 64, GFP_KERNEL)?;
        work.as_mut().add_piece(piece).map_err(|_| ENOSPC)?;
        let ticking = Ticking(qp.handle(), Some(work));
        let timer = Timer::new(device, Context::Hard, ticking)?;
        timer.start(1_000_000);
        Ok(Data { qp, timer })
    }

    fn remove<'d>(_device: &Device<'d>, data: &Data<'d>, sleep: &MaySleep) {
        data.timer.stop(sleep);
    }
}

/// Whom to talk to: the peers exchange that by a means of their own.
fn exchange(_device: &Device<'_>, _number: u32) -> Result<Peer> {
    Err(ENODEV)
}

/// Lets the peer write to memory.
pub fn expose<'d>(qp: &QpRef<'d, Rc, Rts>, pd: &Pd<'d>, sleep: &MaySleep) -> Result<Mr<'d>> {
    let pages = Pages::<rdma::client::dma::Bidirectional>::new(pd.device(), 65536, sleep)?;
    let mr = Mr::new(pd, 16, sleep)?;
    mr.map(&pages, sleep)?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let work = Work::new(pd.device(), 0, Receiver, sleep)?;
    qp.post_send(work, RcOp::RegMr { mr: &mr, access })?;
    Ok(mr)
}

/// Answers a datagram.
pub fn answer<'d>(
    qp: &Qp<'d, Ud, Rts>,
    (source, grh): (&Source, &[u8; GRH_LENGTH]),
    work: Pin<KBox<Work<'d, Receiver>>>,
    sleep: &MaySleep,
) -> Result {
    let op = UdOp {
        ah: &Ah::for_reply(qp.pd(), source, grh, 1, sleep)?,
        qp_num: source.qp_num,
        qkey: 0x1ee7,
        immediate: None,
    };
    Ok(qp.post_send(work, op)?)
}

/// Receives as soon as that may be.
pub fn receive<'d, S: CanReceive>(
    qp: &QpRef<'d, Rc, S>,
    work: Pin<KBox<Work<'d, Receiver>>>,
) -> Result {
    Ok(qp.post_receive(work)?)
}

/// Shares requests to receive.
pub fn share<'d>(pd: &Pd<'d>, sleep: &MaySleep) -> Result<Arc<Srq<'d>>> {
    let config = srq::Config {
        max_receives: 16,
        max_pieces: 1,
        events: None,
    };
    let srq = Srq::new(pd, config, sleep)?;
    srq.post_receive(Work::new(pd.device(), 64, Receiver, sleep)?)?;
    Ok(srq)
}

/// Uses each device from elsewhere.
pub fn count(registration: &Registration<Example>, sleep: &MaySleep) -> usize {
    let mut count = 0usize;
    registration.visit::<()>(
        |_device, data, _sleep| {
            count = count.wrapping_add(data.qp.number() as usize);
            None
        },
        sleep,
    );
    count
}
