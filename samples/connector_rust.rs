// SPDX-License-Identifier: GPL-2.0

//! The smallest connector: from each RoCE device it connects to a listener, and sends a message to it.
//!
//! Built with `FERROBAND_TESTS=m`; then `modprobe connector_rust peer=0x0a000001` for the `listener_rust` at 10.0.0.1, or without a peer for
//! that of the device itself; see `dmesg`. Unloading it closes the connections.

use kernel::prelude::*;
use kernel_ext::{
    compat::module_param,
    module::{process_module, ProcessModule},
    net::ns::NetRef,
};
use rdma::{
    client::{
        cq::PollContext,
        op::RcOp,
        qp::Config,
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Qp, Work,
    },
    MaySleep,
};
use rdma_cm::{Address, Connection, Params, Route};

process_module! {
    type: Sample,
    name: "connector_rust",
    authors: ["Ferroband"],
    description: "The smallest connector for RDMA connections, in Rust",
    license: "GPL",
    params: {
        peer: u32 {
            default: 0,
            description: "The IPv4 address of the listener as a number, such as 0x0a000001 for 10.0.0.1 (0: the device itself)",
        },
    },
}

const PORT: u32 = 1;
/// The port that `listener_rust` has.
const SERVICE: u16 = 7471;
const MESSAGE: &[u8] = b"hello";

/// The completion handler of the message.
struct Log;

impl<'d> Handler<'d> for Log {
    fn done(_work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        pr_info!("sent: {:?}\n", completion.status());
    }
}

/// The first IPv4 address of a device, and its network namespace.
fn own(device: &Device<'_>) -> Result<(NetRef, [u8; 4])> {
    let mut gids = (0..64).filter_map(|index| device.gid(PORT, index).ok());
    let gid = gids.find(|gid| gid.gid().ipv4().is_some()).ok_or(ENODEV)?;
    Ok((gid.namespace()?, gid.gid().ipv4().ok_or(ENODEV)?))
}

struct Connector;

static TABLE: Table<Connector> = Table::new();

impl Client for Connector {
    /// A connection with its queue pair. Dropping it disconnects.
    type Data<'d> = Connection<'d>;

    const NAME: &'static CStr = c"connector_rust";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Connection<'d>> {
        let (net, address) = own(device)?;
        let peer = match module_param::value(&module_parameters::peer) {
            0 => address,
            peer => peer.to_be_bytes(),
        };
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
        let qp = Qp::new(&Pd::new(device, sleep)?, config, sleep)?;
        let (here, there) = (Address::V4(address, 0), Address::V4(peer, SERVICE));
        let route = Route::resolve(device, &net, Some(&here), &there, sleep)?;
        let qp = route.init(qp, sleep)?;
        let (connection, _) = route.connect(qp, &Params::default(), sleep)?;
        let mut work = Work::new(device, MESSAGE.len() as u32, Log, sleep)?;
        work.as_mut().write(MESSAGE);
        connection.post_send(work, RcOp::Send)?;
        Ok(connection)
    }
}

/// The module: a client as long as it is loaded.
struct Sample {
    _client: Registration<Connector>,
}

impl ProcessModule for Sample {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _client = TABLE.register(sleep)?;
        Ok(Self { _client })
    }
}
