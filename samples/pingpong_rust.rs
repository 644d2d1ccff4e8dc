// SPDX-License-Identifier: GPL-2.0

//! A client that plays ping-pong with itself: on each RoCE device it connects two queue pairs to each other, which have a completion
//! queue and a shared receive queue in common, and sends back what either of them receives.
//!
//! The completion queue tells that it has completions, and is drained. The shared receive queue tells once that few receives are left;
//! from then on each buffer is given back to it. The event may come late, so they are given back anyway when half of them were used.
//!
//! `samples/pingpong_c.c` is the same in C. Built with `FERROBAND_TESTS=m`; then `modprobe pingpong_rust`, and see `dmesg`.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::module::{process_module, ProcessModule};
use rdma::{
    abi::{ah::GlobalRoute, event::SrqEvent},
    client::{
        cq::{CqRef, OnCompletions},
        op::RcOp,
        qp::{self, ConnectedInit, Init, Peer, Rc, Rts, Sending},
        srq::{self, OnSrqEvent, SrqHandle},
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Qp, Srq, Work,
    },
    Access, AhFields, MaySleep, Mtu, NotifyFlags, WcOpcode,
};

process_module! {
    type: Sample,
    name: "pingpong_rust",
    authors: ["Ferroband"],
    description: "A client that plays ping-pong with itself, in Rust",
    license: "GPL",
}

const PORT: u32 = 1;
const MESSAGE: &[u8] = b"ping";
const MESSAGES: u32 = 200;
const RECEIVES: u32 = 64;
/// Few receives are left: fewer than that.
const LIMIT: u32 = 48;
const SIZE: u32 = 64;

/// Whether few receives are left.
struct Low(Arc<AtomicBool>);

impl OnSrqEvent for Low {
    fn srq_event(&self, event: SrqEvent) {
        if event == SrqEvent::LimitReached {
            pr_info!("few receives are left\n");
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Takes completions until there are none, and asks to be told of the next one; what came in between is taken at once.
struct Drain;

impl OnCompletions for Drain {
    fn completions(&self, cq: &CqRef<'_>) {
        loop {
            let _ = cq.poll(u32::MAX);
            if !matches!(cq.arm(NotifyFlags::NEXT_COMP), Ok(true)) {
                return;
            }
        }
    }
}

struct Game<'d> {
    received: AtomicU32,
    is_low: Arc<AtomicBool>,
    srq: SrqHandle<'d>,
}

impl Game<'_> {
    fn gives_back(&self) -> bool {
        self.is_low.load(Ordering::Relaxed) || self.received.load(Ordering::Relaxed) >= RECEIVES / 2
    }
}

/// The completion handler of the requests.
struct Ball<'d>(Arc<Game<'d>>);

impl<'d> Handler<'d> for Ball<'d> {
    fn done(mut work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if !completion.is_success() {
            return;
        }
        let game = work.handler().0.clone();
        if completion.opcode() != Some(WcOpcode::Recv) {
            if game.gives_back() {
                let _ = game.srq.post_receive(work);
            }
            return;
        }
        // What came is sent back.
        let before = game.received.fetch_add(1, Ordering::Relaxed);
        if before < MESSAGES - 1 {
            work.as_mut().set_length(completion.length());
            if let Some(qp) = completion.sender::<Rc>() {
                let _ = qp.post_send(work, RcOp::Send);
            }
            return;
        }
        let message = work.bytes().get(..completion.length() as usize);
        let text = message.and_then(|bytes| core::str::from_utf8(bytes).ok());
        pr_info!("{}, {} times\n", text.unwrap_or_default(), MESSAGES);
    }
}

/// From INIT to RTR and RTS. The path is from the device to itself.
fn connect<'d>(
    device: &Device<'d>,
    qp: Qp<'d, Rc, Init>,
    qp_num: u32,
    sleep: &MaySleep,
) -> Result<Qp<'d, Rc, Rts>> {
    let gid = device.gid(PORT, 0)?;
    let route = GlobalRoute {
        dgid: gid.gid(),
        hop_limit: 1,
        ..GlobalRoute::default()
    };
    let peer = Peer {
        path: AhFields {
            grh: Some(route),
            port_num: PORT,
            dmac: gid.mac()?,
            ..AhFields::default()
        },
        mtu: Mtu::B1024,
        qp_num,
        psn: 0,
        reads: 1,
        rnr_timer: 1,
    };
    let sending = Sending {
        psn: 0,
        reads: 1,
        timeout: 14,
        retries: 7,
        rnr_retries: 7,
    };
    Ok(qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?)
}

struct PingPong;

static TABLE: Table<PingPong> = Table::new();

impl Client for PingPong {
    /// The queue pairs. Dropping them waits until all requests are completed.
    type Data<'d> = [Qp<'d, Rc, Rts>; 2];

    const NAME: &'static CStr = c"pingpong_rust";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<[Qp<'d, Rc, Rts>; 2]> {
        if !device.is_roce(PORT) {
            return Err(ENODEV);
        }
        let pd = Pd::new(device, sleep)?;
        let cq = Cq::notified(device, 2 * RECEIVES, 0, Drain, sleep)?;
        let is_low = Arc::new(AtomicBool::new(false), GFP_KERNEL)?;
        let config = srq::Config {
            max_receives: RECEIVES,
            max_pieces: 1,
            events: Some(Arc::new(Low(is_low.clone()), GFP_KERNEL)?),
        };
        let srq = Srq::new(&pd, config, sleep)?;
        let game = Game {
            received: AtomicU32::new(0),
            is_low,
            srq: srq.handle(),
        };
        let game = Arc::new(game, GFP_KERNEL)?;
        for _ in 0..RECEIVES {
            srq.post_receive(Work::new(device, SIZE, Ball(game.clone()), sleep)?)?;
        }
        srq.arm_limit(LIMIT, sleep)?;
        let make = || -> Result<Qp<'d, Rc, Init>> {
            let config = qp::Config {
                send_cq: &cq,
                recv_cq: &cq,
                max_sends: 4,
                max_receives: 0,
                max_pieces: 1,
                srq: Some(&srq),
                events: None,
            };
            let init = ConnectedInit {
                port: PORT,
                pkey_index: 0,
                access: Access::LOCAL_WRITE,
            };
            Ok(Qp::<Rc, _>::new(&pd, config, sleep)?.into_init(&init, sleep)?)
        };
        let (first, second) = (make()?, make()?);
        let numbers = (first.number(), second.number());
        let first = connect(device, first, numbers.1, sleep)?;
        let second = connect(device, second, numbers.0, sleep)?;
        pr_info!("connected\n");
        cq.arm(NotifyFlags::NEXT_COMP)?;
        let mut work = Work::new(device, MESSAGE.len() as u32, Ball(game), sleep)?;
        work.as_mut().write(MESSAGE);
        first.post_send(work, RcOp::Send)?;
        Ok([first, second])
    }
}

/// The module: a client as long as it is loaded.
struct Sample {
    _client: Registration<PingPong>,
}

impl ProcessModule for Sample {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _client = TABLE.register(sleep)?;
        Ok(Self { _client })
    }
}
