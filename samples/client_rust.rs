// SPDX-License-Identifier: GPL-2.0

//! The smallest client: on each RoCE device it connects a queue pair to itself, and sends a message to it.
//!
//! `samples/client_c.c` is the same in C. Built with `FERROBAND_TESTS=m`; then `modprobe client_rust`, and see `dmesg`.

use kernel::prelude::*;
use kernel_ext::module::{process_module, ProcessModule};
use rdma::{
    abi::ah::GlobalRoute,
    client::{
        cq::PollContext,
        op::RcOp,
        qp::{Config, ConnectedInit, Peer, Rc, Rts, Sending},
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Qp, Work,
    },
    Access, AhFields, MaySleep, Mtu, WcOpcode,
};

process_module! {
    type: Sample,
    name: "client_rust",
    authors: ["Ferroband"],
    description: "The smallest RDMA client, in Rust",
    license: "GPL",
}

const PORT: u32 = 1;
const MESSAGE: &[u8] = b"hello";

/// The completion handler of the requests: it logs the message that was received.
struct Log;

impl<'d> Handler<'d> for Log {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if !completion.is_success() || completion.opcode() != Some(WcOpcode::Recv) {
            return;
        }
        let message = work.bytes().get(..completion.length() as usize);
        let text = message.and_then(|bytes| core::str::from_utf8(bytes).ok());
        pr_info!("received: {}\n", text.unwrap_or_default());
    }
}

/// The path from the device to itself.
fn path(device: &Device<'_>) -> Result<AhFields> {
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

struct Hello;

static TABLE: Table<Hello> = Table::new();

impl Client for Hello {
    /// A queue pair that is connected to itself. Dropping it waits until all requests are completed.
    type Data<'d> = Qp<'d, Rc, Rts>;

    const NAME: &'static CStr = c"client_rust";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Rts>> {
        if !device.is_roce(PORT) {
            return Err(ENODEV);
        }
        let pd = Pd::new(device, sleep)?;
        let cq = Cq::new(device, 4, 0, PollContext::WorkQueue, sleep)?;
        let config = Config {
            send_cq: &cq,
            recv_cq: &cq,
            max_sends: 1,
            max_receives: 1,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        let init = ConnectedInit {
            port: PORT,
            pkey_index: 0,
            access: Access::LOCAL_WRITE,
        };
        let qp = Qp::<Rc, _>::new(&pd, config, sleep)?.into_init(&init, sleep)?;
        qp.post_receive(Work::new(device, 64, Log, sleep)?)?;
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
        let qp = qp.into_rtr(&peer, sleep)?.into_rts(&sending, sleep)?;
        let mut work = Work::new(device, MESSAGE.len() as u32, Log, sleep)?;
        work.as_mut().write(MESSAGE);
        qp.post_send(work, RcOp::Send)?;
        Ok(qp)
    }
}

/// The module: a client as long as it is loaded.
struct Sample {
    _client: Registration<Hello>,
}

impl ProcessModule for Sample {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _client = TABLE.register(sleep)?;
        Ok(Self { _client })
    }
}
