// SPDX-License-Identifier: GPL-2.0

//! The smallest client: on each RoCE device it connects a queue pair to itself, and sends a message to it.
//!
//! `samples/client_c.c` is the same in C. Built with `FERROBAND_TESTS=m`; then `modprobe client_rust`, and see `dmesg`.

use kernel::{prelude::*, sync::aref::ARef};
use rdma::{
    ah::GlobalRoute,
    client::{Client, ClientTable, Counted, Registration},
    verbs::{
        cq::PollContext,
        qp::{Change, Config, Peer, SendOp, Sending},
        work::{Completion, Handler, Work},
        Cq, Device, Pd, Qp,
    },
    view, Access, AhFields, MaySleep, Mtu, QpType, WcOpcode, WcStatus,
};

module! {
    type: Sample,
    name: "client_rust",
    authors: ["Ferroband"],
    description: "The smallest RDMA client, in Rust",
    license: "GPL",
}

const PORT: u32 = 1;
const MESSAGE: &[u8] = b"hello";

/// What happens when a request is completed: that of a message that was received is logged.
struct Log;

impl Handler for Log {
    fn done(work: Pin<KBox<Work<Self>>>, completion: &Completion<'_>) {
        if completion.status() != WcStatus::Success || completion.opcode() != Some(WcOpcode::Recv) {
            return;
        }
        let message = work.bytes().get(..completion.length() as usize);
        let text = message.and_then(|bytes| core::str::from_utf8(bytes).ok());
        pr_info!("received: {}\n", text.unwrap_or_default());
    }
}

/// The path from the device to itself.
fn path(device: &Device) -> Result<AhFields> {
    let gid = device.gid(PORT, 0)?;
    let route = GlobalRoute {
        dgid: gid.gid(),
        hop_limit: 1,
        ..GlobalRoute::default()
    };
    Ok(AhFields {
        grh: Some(route),
        port_num: PORT,
        dmac: gid.mac()?,
        ..AhFields::default()
    })
}

/// A queue pair that is connected to itself, to which a message is on its way.
fn greet(device: &Device, sleep: &MaySleep) -> Result<Qp> {
    let pd = Pd::new(device, sleep)?;
    let cq = Cq::new(device, 4, 0, PollContext::WorkQueue, sleep)?;
    let config = Config {
        qp_type: QpType::Rc,
        send_cq: &cq,
        recv_cq: &cq,
        max_sends: 1,
        max_receives: 1,
        events: None,
    };
    let qp = Qp::new(&pd, config, sleep)?;
    let peer = Peer {
        path: path(device)?,
        mtu: Mtu::B1024,
        qp_num: qp.number(),
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
    qp.modify(Change::initialise(PORT, Access::LOCAL_WRITE), sleep)?;
    let work = Work::new(device, 64, Log, sleep)?;
    qp.post_receive(work).map_err(|failed| failed.error)?;
    qp.modify(Change::receive(&peer), sleep)?;
    qp.modify(Change::send(&sending), sleep)?;
    let mut work = Work::new(device, MESSAGE.len() as u32, Log, sleep)?;
    for (to, from) in work.as_mut().bytes_mut().iter_mut().zip(MESSAGE) {
        *to = *from;
    }
    qp.post_send(work, SendOp::Message, MESSAGE.len() as u32)
        .map_err(|failed| failed.error)?;
    Ok(qp)
}

struct Hello;

static TABLE: ClientTable<Hello> = ClientTable::new();

impl Client for Hello {
    type Data = Counted<Qp>;

    const NAME: &'static CStr = c"client_rust";
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &TABLE
    }

    fn add(device: &view::Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let device = Device::new(device, Self::NAME)?;
        if !device.is_roce(PORT) {
            return Err(ENODEV);
        }
        Counted::new(greet(&device, sleep)?)
    }

    fn remove(_device: &view::Device, qp: ARef<Self::Data>, _sleep: &MaySleep) {
        // Waits until all requests are completed.
        drop(qp);
    }
}

/// The module: a client as long as it is loaded.
struct Sample {
    _client: Registration<Hello>,
}

impl kernel::Module for Sample {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        // SAFETY: Modules are loaded in process context.
        let sleep = &unsafe { MaySleep::assume() };
        let _client = TABLE.register(sleep)?;
        Ok(Self { _client })
    }
}
