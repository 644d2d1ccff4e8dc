// SPDX-License-Identifier: GPL-2.0

//! The smallest listener: on each address of each RoCE device it accepts connections, and logs what comes over them.
//!
//! Built with `FERROBAND_TESTS=m`; then `modprobe listener_rust`, and on the same or another machine `connector_rust`; see `dmesg`.

use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::{
    error::ESHUTDOWN,
    module::{process_module, ProcessModule},
    sync::new_mutex,
};
use rdma::{
    client::{
        cq::PollContext,
        qp::{Config, Rc, Rts},
        table::{Registration, Table},
        work::{Completion, Handler as OnDone},
        Client, Cq, Device, Pd, Qp, Work,
    },
    MaySleep,
};
use rdma_cm::{
    handler::{Handler, Handling, Id, Request},
    Address, Event, Options, Params, Tcp,
};

process_module! {
    type: Sample,
    name: "listener_rust",
    authors: ["Ferroband"],
    description: "The smallest listener for RDMA connections, in Rust",
    license: "GPL",
}

const PORT: u32 = 1;
/// The port of the connection manager's TCP port space.
const SERVICE: u16 = 7471;

/// The completion handler of receives.
struct Log;

impl<'d> OnDone<'d> for Log {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        let message = work.bytes().get(..completion.length() as usize);
        let text = message.and_then(|bytes| core::str::from_utf8(bytes).ok());
        if completion.is_success() {
            pr_info!("received: {}\n", text.unwrap_or_default());
        }
    }
}

/// A connection, with its queue pair.
struct Connection<'d>(#[expect(dead_code, reason = "it is dropped")] Qp<'d, Rc, Rts>);

impl<'d> Handler<'d, Tcp> for Connection<'d> {
    fn event(&self, id: &Handling<'_, 'd, Tcp>, event: Event, _sleep: &MaySleep) -> Result {
        pr_info!("{event:?}\n");
        match event {
            Event::Disconnected => id.disconnect().and(Err(ESHUTDOWN)),
            _ => Ok(()),
        }
    }
}

/// The handler of requests, with the connections that it has accepted.
#[pin_data]
struct Listener<'d> {
    pd: Pd<'d>,
    cq: Arc<Cq<'d>>,
    #[pin]
    accepted: Mutex<KVec<Id<'d, Tcp, Connection<'d>>>>,
}

impl<'d> Handler<'d, Tcp> for Listener<'d> {
    fn request(&self, request: Request<'_, 'd, Tcp>, sleep: &MaySleep) -> Result {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: 1,
            max_receives: 4,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        let qp = request.init(Qp::new(&self.pd, config, sleep)?, sleep)?;
        for _ in 0..4 {
            qp.post_receive(Work::new(self.pd.device(), 64, Log, sleep)?)?;
        }
        let qp = request.ready(qp, sleep)?;
        let id = request.accept(qp, &Params::default(), Connection)?;
        let mut accepted = self.accepted.lock();
        accepted.retain(|id| !id.has_ended());
        Ok(accepted.push(id, GFP_KERNEL)?)
    }
}

struct Listening;

static TABLE: Table<Listening> = Table::new();

impl Client for Listening {
    /// A listener for each address.
    type Data<'d> = KVec<Id<'d, Tcp, Pin<KBox<Listener<'d>>>>>;

    const NAME: &'static CStr = c"listener_rust";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Self::Data<'d>> {
        let mut listeners = KVec::new();
        for gid in (0..64).filter_map(|index| device.gid(PORT, index).ok()) {
            let (net, address) = (gid.namespace()?, Address::of_gid(gid.gid(), SERVICE));
            let handler = KBox::pin_init(
                pin_init!(Listener {
                    pd: Pd::new(device, sleep)?,
                    cq: Cq::new(device, 64, 0, PollContext::WorkQueue, sleep)?,
                    accepted <- new_mutex!(KVec::new(), "Listener::accepted"),
                }? Error),
                GFP_KERNEL,
            )?;
            let (options, at) = (Options::default(), (&address, 16));
            // Not on link-local addresses, which need the index of an interface.
            if let Ok(id) = Id::listen(device, &net, &options, at, handler, sleep) {
                listeners.push(id, GFP_KERNEL)?;
            }
        }
        Ok(listeners)
    }
}

/// The module: a client as long as it is loaded.
struct Sample {
    _client: Registration<Listening>,
}

impl ProcessModule for Sample {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let _client = TABLE.register(sleep)?;
        Ok(Self { _client })
    }
}
