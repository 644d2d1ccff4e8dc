// SPDX-License-Identifier: GPL-2.0

//! Connects each device to itself by the connection manager, in Rust.
//!
//! It runs when it is loaded. Its results are in the kernel log, as `pass|NAME` and `fail|NAME|WHY`; then `done`.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/clients/cm_client.sh loads it.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    module::{process_module, ProcessModule},
    net::ns::NetNamespace,
    sync::Completion as Done,
};
use rdma::{
    bindings,
    client::{
        cq::PollContext,
        op::RcOp,
        qp::{Config, Qp, Rc, Reset},
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Work,
    },
    MaySleep,
};
use rdma_cm::{Address, Connection, Listener, Params, Route};

process_module! {
    type: Test,
    name: "cm_client",
    authors: ["Ferroband"],
    description: "Connects by the connection manager, in Rust",
    license: "GPL",
}

/// Fails and logs a message if a condition is false.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            pr_info!("  {}\n", ::core::format_args!($($why)+));
            return Err(EIO);
        }
    };
}

/// Signals the completion of a request.
struct Waited(Arc<Done>);

impl<'d> Handler<'d> for Waited {
    fn done(work: Pin<KBox<Work<'d, Self>>>, completion: &Completion<'_, 'd>) {
        if completion.is_success() {
            work.handler().0.complete();
        }
    }
}

/// The objects that queue pairs are created with.
struct Parts<'d> {
    pd: Pd<'d>,
    cq: Arc<Cq<'d>>,
}

impl<'d> Parts<'d> {
    fn qp(&self, sleep: &MaySleep) -> Result<Qp<'d, Rc, Reset>> {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: 4,
            max_receives: 4,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        Qp::new(&self.pd, config, sleep)
    }
}

/// An IPv4 address of a device.
fn address(device: &Device<'_>) -> Result<[u8; 4]> {
    let gids = (0..8).filter_map(|index| device.gid(1, index).ok());
    gids.filter_map(|gid| gid.gid().ipv4()).next().ok_or(ENODEV)
}

const PARAMS: Params<'static> = Params {
    private_data: b"from who connects",
    responder_resources: 1,
    initiator_depth: 1,
    retries: 7,
    rnr_retries: 7,
};

/// Both ends of a connection; a receive is posted at the passive end.
struct Pair<'d> {
    from: Connection<'d>,
    to: Connection<'d>,
    received: Arc<Done>,
    parts: Parts<'d>,
    _listener: Listener<'d>,
}

impl<'d> Pair<'d> {
    fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        let parts = Parts {
            pd: Pd::new(device, sleep)?,
            cq: Cq::new(device, 32, 0, PollContext::WorkQueue, sleep)?,
        };
        let own = address(device)?;
        let listener = Listener::new(device, NetNamespace::init(), &Address::V4(own, 0), 4, sleep)?;
        let there = Address::V4(own, listener.port());
        let route = Route::resolve(
            device,
            NetNamespace::init(),
            Some(&Address::V4(own, 0)),
            &there,
            sleep,
        )?;
        let from = route.init(parts.qp(sleep)?, sleep)?;
        let connecting = route.begin(from, &PARAMS, sleep)?;
        let request = listener.next(5000, sleep)?;
        ensure!(
            request.private_data().starts_with(PARAMS.private_data),
            "other private data"
        );
        let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
        let to = request.init(parts.qp(sleep)?, sleep)?;
        to.post_receive(Work::new(device, 64, Waited(received.clone()), sleep)?)?;
        let params = Params {
            private_data: b"from who accepts",
            ..PARAMS
        };
        let accepting = request.begin(to, &params, sleep)?;
        let (from, told) = connecting.finish(sleep)?;
        ensure!(told.starts_with(b"from who accepts"), "other private data");
        Ok(Self {
            from,
            to: accepting.finish(sleep)?,
            received,
            parts,
            _listener: listener,
        })
    }
}

fn connect(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Pair::new(device, sleep)?;
    let sent = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    let mut work = Work::new(device, 5, Waited(sent.clone()), sleep)?;
    work.as_mut().write(b"hello");
    pair.from.post_send(work, RcOp::Send)?;
    ensure!(sent.wait_timeout(5000, sleep), "not sent");
    ensure!(pair.received.wait_timeout(5000, sleep), "not received");
    pair.from.disconnect(sleep)?;
    pair.to.wait_disconnected(5000, sleep)?;
    // The peer hears of the answer.
    pair.to.disconnect(sleep)?;
    pair.from.wait_disconnected(5000, sleep)?;
    drop(pair.parts);
    Ok(())
}

/// Both ends are dropped while they are connected.
fn abandon(device: &Device<'_>, sleep: &MaySleep) -> Result {
    Pair::new(device, sleep).map(drop)
}

fn rejected(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let parts = Parts {
        pd: Pd::new(device, sleep)?,
        cq: Cq::new(device, 32, 0, PollContext::SoftIrq, sleep)?,
    };
    let own = address(device)?;
    let listener = Listener::new(device, NetNamespace::init(), &Address::V4(own, 0), 4, sleep)?;
    let there = Address::V4(own, listener.port());
    let refused = Error::from_errno(-(bindings::ECONNREFUSED as i32));
    for is_said in [true, false] {
        let route = Route::resolve(device, NetNamespace::init(), None, &there, sleep)?;
        let qp = route.init(parts.qp(sleep)?, sleep)?;
        let connecting = route.begin(qp, &PARAMS, sleep)?;
        let request = listener.next(5000, sleep)?;
        match is_said {
            true => request.reject(b"no", sleep)?,
            false => drop(request),
        }
        let finished = connecting.finish(sleep).err();
        ensure!(finished == Some(refused), "{finished:?}");
    }
    // A request that is not taken from the listener is rejected when the listener is dropped.
    let route = Route::resolve(device, NetNamespace::init(), None, &there, sleep)?;
    let qp = route.init(parts.qp(sleep)?, sleep)?;
    let connecting = route.begin(qp, &PARAMS, sleep)?;
    drop(listener);
    let finished = connecting.finish(sleep).err();
    ensure!(finished == Some(refused), "{finished:?}");
    Ok(())
}

fn impossible(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let nowhere = Address::V4([203, 0, 113, 1], 5);
    ensure!(
        Listener::new(device, NetNamespace::init(), &nowhere, 1, sleep).is_err(),
        "listens nowhere"
    );
    ensure!(
        Route::resolve(device, NetNamespace::init(), None, &nowhere, sleep).is_err(),
        "a way to nowhere"
    );
    Ok(())
}

struct TestClient;

static TABLE: Table<TestClient> = Table::new();

impl Client for TestClient {
    /// A connection that exists until the device is removed.
    type Data<'d> = Option<Pair<'d>>;

    const NAME: &'static CStr = c"cm_client";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Option<Pair<'d>>> {
        Ok(Pair::new(device, sleep).ok())
    }
}

/// Logs the result of a test.
fn report(name: &str, result: Result) {
    match result {
        Ok(()) => pr_info!("pass|{name}\n"),
        Err(error) => pr_info!("fail|{name}|{error:?}\n"),
    }
}

/// The module.
struct Test {
    _client: Registration<TestClient>,
}

impl ProcessModule for Test {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let client = TABLE.register(sleep)?;
        client.visit::<()>(
            |device, data, sleep| {
                let made = data.as_ref().map(drop).ok_or(EIO);
                report("a connection that stays", made);
                report(
                    "a message goes, both ends disconnect",
                    connect(device, sleep),
                );
                report("both ends are dropped", abandon(device, sleep));
                report("a peer is rejected", rejected(device, sleep));
                report("addresses that cannot be", impossible(device, sleep));
                None
            },
            sleep,
        );
        pr_info!("done\n");
        Ok(Self { _client: client })
    }
}
