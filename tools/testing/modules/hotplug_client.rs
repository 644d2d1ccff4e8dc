// SPDX-License-Identifier: GPL-2.0

//! A client that comes and goes, with devices that come and go: for each device it makes a PD, a CQ and two queue pairs that
//! are connected to each other, sends messages through them, and has nothing left of it when it is removed.
//!
//! What it has seen stands in `/sys/module/hotplug_client/parameters/`. `faults` counts what must not be.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/client.sh and storm.sh load it.

use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use kernel::{
    prelude::*,
    sync::{aref::ARef, Arc},
};
use kernel_ext::param::count_param;
use rdma::{
    ah::GlobalRoute,
    client::{Client, ClientTable, Counted, Registration},
    event::QpEvent,
    verbs::{
        cq::PollContext,
        event::{self, OnDeviceEvent, OnQpEvent, PortEvent},
        qp::{Change, Config, Peer, QpRef, SendOp, Sending},
        work::{Completion, Handler, Work},
        Cq, Device, Pd, Qp,
    },
    view, Access, AhFields, MaySleep, Mtu, QpType, WcStatus,
};

module! {
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

/// How many bytes a message has.
const LENGTH: u32 = 256;

/// How many messages are sent for a device.
const PER_DEVICE: u32 = 64;

/// How many requests to receive there are.
const RECEIVES: u32 = 8;

/// What is posted for a device, and what has come back.
struct Audit {
    posted: AtomicUsize,
    completed: AtomicUsize,
}

/// Closes the books when this is dropped: after the queue pairs.
struct Books(Arc<Audit>);

impl Drop for Books {
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
    fn post(mut work: Pin<KBox<Work<Self>>>, qp: &QpRef) {
        let left = work.handler().left;
        if left == 0 {
            return;
        }
        work.as_mut().handler_mut().left = left.wrapping_sub(1);
        work.as_mut().bytes_mut().fill(left as u8);
        let audit = work.handler().audit.clone();
        count(&audit.posted);
        if qp.post_send(work, SendOp::Message, LENGTH).is_err() {
            count(&audit.completed);
        }
    }
}

impl Handler for Sender {
    fn done(work: Pin<KBox<Work<Self>>>, completion: &Completion<'_>) {
        count(&work.handler().audit.completed);
        match completion.status() {
            WcStatus::Success => Self::post(work, completion.qp()),
            _ => count(&FLUSHED),
        }
    }
}

/// Receives messages.
struct Receiver {
    audit: Arc<Audit>,
}

impl Receiver {
    fn post(work: Pin<KBox<Work<Self>>>, qp: &QpRef) {
        let audit = work.handler().audit.clone();
        count(&audit.posted);
        if qp.post_receive(work).is_err() {
            count(&audit.completed);
        }
    }
}

impl Handler for Receiver {
    fn done(work: Pin<KBox<Work<Self>>>, completion: &Completion<'_>) {
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
        Self::post(work, completion.qp());
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

/// What the client has of a device. The queue pairs are dropped first.
struct State {
    sender: Qp,
    receiver: Qp,
    _events: event::Registration<Listener>,
    books: Books,
}

const PORT: u32 = 1;

/// The path from a port to itself.
fn path_to_itself(device: &Device) -> Result<AhFields> {
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

fn initialise(qp: &Qp, sleep: &MaySleep) -> Result {
    qp.modify(Change::initialise(PORT, Access::LOCAL_WRITE), sleep)
}

fn connect(qp: &Qp, to: &Qp, path: AhFields, sleep: &MaySleep) -> Result {
    let peer = Peer {
        path,
        mtu: Mtu::B256,
        qp_num: to.number(),
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
    qp.modify(Change::receive(&peer), sleep)?;
    qp.modify(Change::send(&sending), sleep)
}

/// In which context the CQ of the next device is polled: each in turn.
fn next_context() -> PollContext {
    match ADDED.load(SeqCst) % 3 {
        0 => PollContext::SoftIrq,
        1 => PollContext::WorkQueue,
        _ => PollContext::UnboundWorkQueue,
    }
}

impl State {
    fn new(device: &Device, sleep: &MaySleep) -> Result<Self> {
        let pd = Pd::new(device, sleep)?;
        let entries = RECEIVES.saturating_add(8);
        let cq = Cq::new(device, entries, 0, next_context(), sleep)?;
        let make = || {
            let config = Config {
                qp_type: QpType::Rc,
                send_cq: &cq,
                recv_cq: &cq,
                max_sends: 1,
                max_receives: RECEIVES,
                events: Some(Arc::new(Listener, GFP_KERNEL)?),
            };
            Qp::new(&pd, config, sleep)
        };
        let audit = Audit {
            posted: AtomicUsize::new(0),
            completed: AtomicUsize::new(0),
        };
        Ok(Self {
            sender: make()?,
            receiver: make()?,
            _events: event::Registration::new(device, Listener, sleep)?,
            books: Books(Arc::new(audit, GFP_KERNEL)?),
        })
    }

    /// Connects the queue pairs, and sends the first message. Later ones follow when it is completed.
    fn start(&self, device: &Device, sleep: &MaySleep) -> Result {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let path = path_to_itself(device)?;
        initialise(sender, sleep)?;
        initialise(receiver, sleep)?;
        for _ in 0..RECEIVES {
            let audit = self.books.0.clone();
            let work = Work::new(device, LENGTH, Receiver { audit }, sleep)?;
            Receiver::post(work, receiver);
        }
        connect(sender, receiver, path, sleep)?;
        connect(receiver, sender, path, sleep)?;
        let handler = Sender {
            audit: self.books.0.clone(),
            left: PER_DEVICE,
        };
        Sender::post(Work::new(device, LENGTH, handler, sleep)?, sender);
        Ok(())
    }
}

/// The client.
struct HotplugClient;

static TABLE: ClientTable<HotplugClient> = ClientTable::new();

impl Client for HotplugClient {
    type Data = Counted<State>;

    const NAME: &'static CStr = c"hotplug_client";
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &TABLE
    }

    fn add(device: &view::Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let device = Device::new(device, Self::NAME)?;
        let state = State::new(&device, sleep)?;
        // A port may have no address now: then there is no traffic.
        if state.start(&device, sleep).is_ok() {
            count(&CONNECTED);
        }
        let state = Counted::new(state)?;
        count(&ADDED);
        Ok(state)
    }

    fn remove(_device: &view::Device, data: ARef<Self::Data>, _sleep: &MaySleep) {
        drop(data);
        count(&REMOVED);
        if REMOVED.load(SeqCst) > ADDED.load(SeqCst) {
            fault("a device was removed that was not added");
        }
    }

    fn renamed(_device: &view::Device, _data: &Self::Data, _sleep: &MaySleep) {
        count(&RENAMED);
    }
}

/// The module. When it is unloaded, all devices are removed first.
struct Hotplug {
    _client: Registration<HotplugClient>,
    _audit: Balance,
}

/// Says at the end what the client has seen.
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

impl kernel::Module for Hotplug {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        Ok(Self {
            _client: TABLE.register(sleep)?,
            _audit: Balance,
        })
    }
}
