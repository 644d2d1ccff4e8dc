// SPDX-License-Identifier: GPL-2.0

//! A client for hotplug tests: for each device it creates a PD, a CQ and two queue pairs that are connected to each other, sends
//! messages through them, and destroys all of them when the device is removed.
//!
//! Its counters are in `/sys/module/hotplug_client/parameters/`; `faults` counts errors.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/clients/client.sh and storm.sh load it.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    module::{process_module, ProcessModule},
    param::count_param,
};
use rdma::{
    abi::{ah::GlobalRoute, event::QpEvent},
    client::{
        cq::PollContext,
        event::{self, OnDeviceEvent, OnQpEvent, PortEvent},
        op::RcOp,
        qp::{
            CanReceive, CanSend, Config, ConnectedInit, Init, Peer, QpRef, Rc, Reset, Rts, Sending,
        },
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Qp, Work,
    },
    Access, AhFields, MaySleep, Mtu, WcStatus,
};

process_module! {
    type: Hotplug,
    name: "hotplug_client",
    authors: ["Ferroband"],
    description: "An RDMA client that comes and goes",
    license: "GPL",
}

static ADDED: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"added",
    ADDED,
    b"parmtype=added:ulong\0parm=added:Devices that came\0"
);

static REMOVED: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"removed",
    REMOVED,
    b"parmtype=removed:ulong\0parm=removed:Devices that went\0"
);

static RENAMED: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"renamed",
    RENAMED,
    b"parmtype=renamed:ulong\0parm=renamed:New names\0"
);

static CONNECTED: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"connected",
    CONNECTED,
    b"parmtype=connected:ulong\0parm=connected:Devices with traffic\0"
);

static MESSAGES: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"messages",
    MESSAGES,
    b"parmtype=messages:ulong\0parm=messages:Messages received\0"
);

static FLUSHED: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"flushed",
    FLUSHED,
    b"parmtype=flushed:ulong\0parm=flushed:Requests that were flushed\0"
);

static EVENTS: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"events",
    EVENTS,
    b"parmtype=events:ulong\0parm=events:Events of devices and queue pairs\0"
);

static FAULTS: AtomicUsize = AtomicUsize::new(0);
count_param!(
    c"faults",
    FAULTS,
    b"parmtype=faults:ulong\0parm=faults:What must not be\0"
);

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, SeqCst);
}

fn fault(what: &str) {
    pr_err!("{what}\n");
    count(&FAULTS);
}

/// The length of a message in bytes.
const LENGTH: u32 = 256;

/// The number of messages that are sent for a device.
const PER_DEVICE: u32 = 64;

/// The number of receives.
const RECEIVES: u32 = 8;

/// The numbers of requests that were posted for a device, and of those that have completed.
struct Audit {
    posted: AtomicUsize,
    completed: AtomicUsize,
}

/// Compares the counts when it is dropped, after the queue pairs.
struct AuditOnDrop(Arc<Audit>);

impl Drop for AuditOnDrop {
    fn drop(&mut self) {
        if self.0.posted.load(SeqCst) != self.0.completed.load(SeqCst) {
            fault("a request was posted that was not completed once");
        }
    }
}

/// Sends messages one after the other.
struct Sender {
    audit: Arc<Audit>,
    left: u32,
}

impl Sender {
    fn post<'d, S: CanSend>(mut work: Pin<KBox<Work<'d, Self>>>, qp: &QpRef<'d, Rc, S>) {
        let left = work.handler().left;
        if left == 0 {
            return;
        }
        work.as_mut().handler_mut().left = left.wrapping_sub(1);
        work.as_mut().bytes_mut().fill(left as u8);
        let audit = work.handler().audit.clone();
        count(&audit.posted);
        if qp.post_send(work, RcOp::Send).is_err() {
            count(&audit.completed);
        }
    }
}

impl<'d> Handler<'d> for Sender {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        count(&work.handler().audit.completed);
        match (completion.status(), completion.sender()) {
            (WcStatus::Success, Some(qp)) => Self::post(work, qp),
            (WcStatus::Success, None) => fault("a queue pair that sends cannot"),
            _ => count(&FLUSHED),
        }
    }
}

/// Receives messages.
struct Receiver {
    audit: Arc<Audit>,
}

impl Receiver {
    fn post<'d, S: CanReceive>(work: Pin<KBox<Work<'d, Self>>>, qp: &QpRef<'d, Rc, S>) {
        let audit = work.handler().audit.clone();
        count(&audit.posted);
        if qp.post_receive(work).is_err() {
            count(&audit.completed);
        }
    }
}

impl<'d> Handler<'d> for Receiver {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        count(&work.handler().audit.completed);
        if completion.status() != WcStatus::Success {
            return count(&FLUSHED);
        }
        let first = work.bytes().first();
        let is_whole = work.bytes().iter().all(|byte| Some(byte) == first);
        if completion.length() != LENGTH || !is_whole {
            fault("a message is not as it was sent");
        }
        count(&MESSAGES);
        if let Some(qp) = completion.receiver() {
            Self::post(work, qp);
        }
    }
}

/// Counts events.
struct Listener;

impl OnDeviceEvent for Listener {
    fn device_event(&self, _event: PortEvent, _sleep: &MaySleep) {
        count(&EVENTS);
    }
}

impl OnQpEvent for Listener {
    fn qp_event(&self, _event: QpEvent) {
        count(&EVENTS);
    }
}

/// The client's objects of a device. The queue pairs are dropped first.
struct State<'d> {
    _pair: Option<[Qp<'d, Rc, Rts>; 2]>,
    _events: event::Registration<'d, Listener>,
    _audit_on_drop: AuditOnDrop,
}

const PORT: u32 = 1;

/// The path from a port to itself.
fn path_to_itself(device: &Device<'_>) -> Result<AhFields> {
    let gid = device.gid(PORT, 0)?;
    Ok(AhFields {
        grh: Some(GlobalRoute {
            dgid: gid.gid(),
            sgid_index: 0,
            hop_limit: 1,
            ..GlobalRoute::default()
        }),
        port_num: PORT,
        dmac: gid.mac()?,
        ..AhFields::default()
    })
}

fn initialise<'d>(qp: Qp<'d, Rc, Reset>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
    let init = ConnectedInit {
        port: PORT,
        pkey_index: 0,
        access: Access::LOCAL_WRITE,
    };
    Ok(qp.into_init(&init, sleep)?)
}

fn connect<'d>(
    qp: Qp<'d, Rc, Init>,
    qp_num: u32,
    path: AhFields,
    sleep: &MaySleep,
) -> Result<Qp<'d, Rc, Rts>> {
    let peer = Peer {
        path,
        mtu: Mtu::B256,
        qp_num,
        psn: 1,
        reads: 1,
        rnr_timer: 1,
    };
    let sending = Sending {
        psn: 1,
        reads: 1,
        timeout: 14,
        retries: 7,
        rnr_retries: 7,
    };
    Ok(qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?)
}

/// The context in which the CQ of the next device is polled: all contexts in turn.
fn next_context() -> PollContext {
    match ADDED.load(SeqCst) % 3 {
        0 => PollContext::SoftIrq,
        1 => PollContext::WorkQueue,
        _ => PollContext::UnboundWorkQueue,
    }
}

/// Makes two queue pairs and connects them, and sends the first message. Later ones follow when it is completed.
fn start<'d>(
    device: &Device<'d>,
    make: impl Fn() -> Result<Qp<'d, Rc, Reset>>,
    audit: &Arc<Audit>,
    sleep: &MaySleep,
) -> Result<[Qp<'d, Rc, Rts>; 2]> {
    let path = path_to_itself(device)?;
    let sender = initialise(make()?, sleep)?;
    let receiver = initialise(make()?, sleep)?;
    for _ in 0..RECEIVES {
        let audit = audit.clone();
        let work = Work::new(device, LENGTH, Receiver { audit }, sleep)?;
        Receiver::post(work, &receiver);
    }
    let (from, to) = (sender.number(), receiver.number());
    let sender = connect(sender, to, path, sleep)?;
    let receiver = connect(receiver, from, path, sleep)?;
    let handler = Sender {
        audit: audit.clone(),
        left: PER_DEVICE,
    };
    Sender::post(Work::new(device, LENGTH, handler, sleep)?, &sender);
    Ok([sender, receiver])
}

impl<'d> State<'d> {
    fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let pd = Pd::new(device, sleep)?;
        let entries = RECEIVES.saturating_add(8);
        let cq = Cq::new(device, entries, 0, next_context(), sleep)?;
        let make = || {
            let config = Config {
                send_cq: &cq,
                recv_cq: &cq,
                max_sends: 1,
                max_receives: RECEIVES,
                max_pieces: 1,
                srq: None,
                events: Some(Arc::new(Listener, GFP_KERNEL)?),
            };
            Qp::new(&pd, config, sleep)
        };
        let audit = Audit {
            posted: AtomicUsize::new(0),
            completed: AtomicUsize::new(0),
        };
        let audit_on_drop = AuditOnDrop(Arc::new(audit, GFP_KERNEL)?);
        let events = event::Registration::new(device, Listener, sleep)?;
        // A port may have no address now: then there is no traffic.
        let pair = start(device, make, &audit_on_drop.0, sleep).ok();
        if pair.is_some() {
            count(&CONNECTED);
        }
        Ok(Self {
            _pair: pair,
            _events: events,
            _audit_on_drop: audit_on_drop,
        })
    }
}

/// The client.
struct HotplugClient;

static TABLE: Table<HotplugClient> = Table::new();

impl Client for HotplugClient {
    type Data<'d> = State<'d>;

    const NAME: &'static CStr = c"hotplug_client";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<State<'d>> {
        let state = State::new(device, sleep)?;
        count(&ADDED);
        Ok(state)
    }

    fn remove<'d>(_device: &Device<'d>, _data: &State<'d>, _sleep: &MaySleep) {
        count(&REMOVED);
        if REMOVED.load(SeqCst) > ADDED.load(SeqCst) {
            fault("a device was removed that was not added");
        }
    }

    fn renamed<'d>(_device: &Device<'d>, _data: &State<'d>, _sleep: &MaySleep) {
        count(&RENAMED);
    }
}

/// The module. When it is unloaded, all devices are removed first.
struct Hotplug {
    _client: Registration<HotplugClient>,
    _audit: Balance,
}

/// Logs what the client has seen when it is unloaded.
struct Balance;

impl Drop for Balance {
    fn drop(&mut self) {
        if ADDED.load(SeqCst) != REMOVED.load(SeqCst) {
            fault("a device was added that was not removed");
        }
        let load = |counter: &AtomicUsize| counter.load(SeqCst);
        pr_info!(
            "{} devices, {} connected, {} messages, {} flushed, {} events, {} faults\n",
            load(&ADDED),
            load(&CONNECTED),
            load(&MESSAGES),
            load(&FLUSHED),
            load(&EVENTS),
            load(&FAULTS),
        );
    }
}

impl ProcessModule for Hotplug {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        Ok(Self {
            _client: TABLE.register(sleep)?,
            _audit: Balance,
        })
    }
}
