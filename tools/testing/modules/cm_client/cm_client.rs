// SPDX-License-Identifier: GPL-2.0

//! Connects each device to itself by the connection manager, in Rust: in the network namespace of its address.
//!
//! It runs when it is loaded. Its results are in the kernel log, as `pass|NAME` and `fail|NAME|WHY`; then `done`.
//!
//! Built with `FERROBAND_TESTS=m`; tools/testing/selftests/clients/cm_client.sh loads it.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    module::{process_module, ProcessModule},
    net::ns::{NetNamespace, NetRef},
    sync::Completion as Done,
    work::InstalledQueue,
};
use rdma::{
    bindings,
    client::{
        cq::PollContext,
        op::{RcOp, UdOp},
        qp::{Config, Qp, QpRef, Reset, Rts, Transport, Ud},
        table::{Registration, Table},
        work::{Completion, Handler},
        Client, Cq, Device, Pd, Work,
    },
    MaySleep,
};
use rdma_cm::{
    any_device,
    datagram::{self, Endpoint, Membership},
    Address, Connection, Ece, Event, Listener, Options, Params, Reason, Remote, Route, Unreachable,
};

mod anywhere;
mod groups;
mod handlers;

use anywhere::{Arrivals, Watcher};
use handlers::Both;

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
use ensure;

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
    fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<Self> {
        Ok(Self {
            pd: Pd::new(device, sleep)?,
            cq: Cq::new(device, 128, 0, PollContext::WorkQueue, sleep)?,
        })
    }

    fn qp<T: Transport>(&self, sleep: &MaySleep) -> Result<Qp<'d, T, Reset>> {
        let config = Config {
            send_cq: &self.cq,
            recv_cq: &self.cq,
            max_sends: 16,
            max_receives: 16,
            max_pieces: 1,
            srq: None,
            events: None,
        };
        Qp::new(&self.pd, config, sleep)
    }
}

/// The network namespace of a device's addresses; the first one for a device without net devices.
fn net(device: &Device<'_>) -> Result<NetRef> {
    match device.is_roce(1) {
        true => device.gid(1, 0)?.namespace(),
        false => NetNamespace::init().get().ok_or(ENODEV),
    }
}

/// An IPv4 address of a device.
fn address(device: &Device<'_>) -> Result<[u8; 4]> {
    let gids = (0..8).filter_map(|index| device.gid(1, index).ok());
    gids.filter_map(|gid| gid.gid().ipv4()).next().ok_or(ENODEV)
}

/// An IPv6 address of a device, of those that are unique and local.
fn address6(device: &Device<'_>) -> Result<[u8; 16]> {
    let gids = (0..8).filter_map(|index| device.gid(1, index).ok());
    let mut raw = gids.map(|gid| gid.gid().to_raw());
    // SAFETY: Both members of the union are plain data.
    let is_local = |gid: &bindings::ib_gid| unsafe { gid.raw }.first() == Some(&0xfd);
    let gid = raw.find(is_local).ok_or(ENODEV)?;
    // SAFETY: As above.
    Ok(unsafe { gid.raw })
}

/// The addresses of a device with an IPv4 address, by their ports.
fn at4(device: &Device<'_>) -> Result<impl Fn(u16) -> Address> {
    let own = address(device)?;
    Ok(move |port| Address::V4(own, port))
}

/// As [`at4`], with an IPv6 address.
fn at6(device: &Device<'_>) -> Result<impl Fn(u16) -> Address> {
    let own = address6(device)?;
    Ok(move |port| Address::V6(own, port, 0))
}

/// The addresses of an InfiniBand port, by their ports.
fn at_gid(device: &Device<'_>) -> Result<impl Fn(u16) -> Address> {
    let own = device.gid(1, 0)?.gid();
    Ok(move |port| Address::Ib(own, port, 0xffff))
}

/// The port of `udaddy`.
const UDADDY: u16 = 7174;
/// The group of `mckey`.
const GROUP: Address = Address::V4([239, 1, 2, 4], 0);

const PARAMS: Params<'static> = Params {
    private_data: b"from who connects",
    responder_resources: 1,
    initiator_depth: 1,
    retries: 7,
    rnr_retries: 7,
    ece: Ece::NONE,
};

/// Whether the private data of a request is that of [`PARAMS`]. Without IP its first byte is the connection manager's.
fn is_asked(private_data: &[u8]) -> bool {
    let length = PARAMS.private_data.len();
    private_data.get(1..length) == PARAMS.private_data.get(1..)
}

/// Options that a peer is told.
const ECE: Ece = Ece {
    vendor_id: 0x12_3456,
    options: 0x789a_bcde,
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
        let own = address(device)?;
        Self::between(device, |port| Address::V4(own, port), sleep)
    }

    fn between(
        device: &Device<'d>,
        own: impl Fn(u16) -> Address,
        sleep: &MaySleep,
    ) -> Result<Self> {
        let parts = Parts::new(device, sleep)?;
        let net = &net(device)?;
        let options = Options {
            service_type: Some(8),
            ack_timeout: Some(16),
            min_rnr_timer: Some(3),
            reuse_address: true,
            family_only: true,
        };
        let listener = Listener::with_options(device, net, &options, (&own(0), 4), sleep)?;
        let there = own(listener.port());
        let here = own(0);
        let ends = (Some(&here), &there);
        let route = Route::resolve_with(device, net, &options, ends, sleep)?;
        let from = route.init(parts.qp(sleep)?, sleep)?;
        let route_qp = from.number();
        let params = Params { ece: ECE, ..PARAMS };
        let connecting = route.begin(from, &params, sleep)?;
        let request = listener.next(5000, sleep)?;
        ensure!(is_asked(request.private_data()), "other private data");
        let offer = request.offer();
        ensure!(offer.qp_num == route_qp, "another queue pair: {offer:?}");
        ensure!(offer.rnr_retries == 7, "other retries: {offer:?}");
        ensure!(offer.ece == ECE, "other options: {offer:?}");
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
    let (own, net) = (address(device)?, net(device)?);
    let listener = Listener::new(device, &net, &Address::V4(own, 0), 4, sleep)?;
    let there = Address::V4(own, listener.port());
    let refused = Error::from_errno(-(bindings::ECONNREFUSED as i32));
    for is_said in [true, false] {
        let route = Route::resolve(device, &net, None, &there, sleep)?;
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
    let route = Route::resolve(device, &net, None, &there, sleep)?;
    let qp = route.init(parts.qp(sleep)?, sleep)?;
    let connecting = route.begin(qp, &PARAMS, sleep)?;
    drop(listener);
    let finished = connecting.finish(sleep).err();
    ensure!(finished == Some(refused), "{finished:?}");
    Ok(())
}

fn impossible(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let nowhere = Address::V4([203, 0, 113, 1], 5);
    let net = net(device)?;
    ensure!(
        Listener::new(device, &net, &nowhere, 1, sleep).is_err(),
        "listens nowhere"
    );
    ensure!(
        Route::resolve(device, &net, None, &nowhere, sleep).is_err(),
        "a way to nowhere"
    );
    let (first, own) = (NetNamespace::init(), Address::V4(address(device)?, 0));
    let there = Listener::new(device, first, &own, 1, sleep).map(drop);
    ensure!(
        there.is_ok() == (*first == *net),
        "in the first namespace: {there:?}"
    );
    Ok(())
}

fn connect6(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let own = address6(device)?;
    Pair::between(device, |port| Address::V6(own, port, 0), sleep).map(drop)
}

/// A rejection comes with its reason and its private data.
fn reasons(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (parts, net) = (Parts::new(device, sleep)?, &net(device)?);
    let own = address(device)?;
    let listener = Listener::new(device, net, &Address::V4(own, 0), 4, sleep)?;
    let there = Address::V4(own, listener.port());
    for reason in [Reason::NO_RESOURCES, Reason::CONSUMER_DEFINED] {
        let route = Route::resolve(device, net, None, &there, sleep)?;
        let qp = route.init(parts.qp(sleep)?, sleep)?;
        let connecting = route.begin(qp, &PARAMS, sleep)?;
        listener
            .next(5000, sleep)?
            .reject_for(reason, b"full", sleep)?;
        let Err(rejection) = connecting.answer(sleep)? else {
            return Err(EIO);
        };
        ensure!(rejection.reason == Some(reason), "{rejection:?}");
        ensure!(rejection.private_data.starts_with(b"full"), "{rejection:?}");
    }
    drop(listener);
    let route = Route::resolve(device, net, None, &there, sleep)?;
    let qp = route.init(parts.qp(sleep)?, sleep)?;
    let Err(rejection) = route.begin(qp, &PARAMS, sleep)?.answer(sleep)? else {
        return Err(EIO);
    };
    let expected = Some(Reason::INVALID_SERVICE_ID);
    ensure!(rejection.reason == expected, "{rejection:?}");
    Ok(())
}

/// The events of a connection's end, in order.
fn events(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let pair = Pair::new(device, sleep)?;
    pair.from.disconnect(sleep)?;
    let event = pair.to.next_event(5000, sleep)?;
    ensure!(matches!(event, Event::Disconnected), "{event:?}");
    pair.to.disconnect(sleep)?;
    let event = pair.from.next_event(5000, sleep)?;
    ensure!(matches!(event, Event::Disconnected), "{event:?}");
    let event = pair.from.next_event(10_000, sleep)?;
    ensure!(matches!(event, Event::TimewaitExit), "{event:?}");
    Ok(())
}

/// Sends `count` datagrams of 100 bytes, and waits until they are sent.
fn send<'d>(
    endpoint: &Endpoint<'d>,
    what: (&Device<'d>, &Remote, u32),
    sleep: &MaySleep,
) -> Result {
    send_to(endpoint, endpoint.pd(), what, sleep)
}

/// As [`send`], by a queue pair.
fn send_to<'d>(
    qp: &QpRef<'d, Ud, Rts>,
    pd: &Pd<'d>,
    (device, to, count): (&Device<'d>, &Remote, u32),
    sleep: &MaySleep,
) -> Result {
    let ah = to.ah(pd, sleep)?;
    let sent = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    for _ in 0..count {
        let op = UdOp {
            ah: &ah,
            qp_num: to.qp_num,
            qkey: to.qkey,
            immediate: Some([0, 0, 0, 1]),
        };
        qp.post_send(Work::new(device, 100, Waited(sent.clone()), sleep)?, op)?;
        ensure!(sent.wait_timeout(5000, sleep), "not sent");
    }
    Ok(())
}

/// A queue pair is looked up, and a datagram goes there.
fn datagrams(device: &Device<'_>, own: impl Fn(u16) -> Address, sleep: &MaySleep) -> Result {
    let (net, options) = (&net(device)?, Options::default());
    let parts = Parts::new(device, sleep)?;
    let listener = datagram::Listener::new(device, net, &options, (&own(0), 4), sleep)?;
    let there = own(listener.port());
    let receiver = listener.ready(parts.qp::<Ud>(sleep)?, sleep)?;
    let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    receiver.post_receive(Work::new(device, 256, Waited(received.clone()), sleep)?)?;
    // The answers come from this thread too, so they are given to a lookup that is under way.
    let lookup = datagram::Route::resolve(device, net, &options, (None, &there), sleep)?.begin(
        parts.qp(sleep)?,
        b"which",
        sleep,
    )?;
    let request = listener.next(5000, sleep)?;
    ensure!(request.private_data().starts_with(b"which"), "other data");
    request.accept(&receiver, b"this", sleep)?;
    let (endpoint, remote, told) = lookup.finish(sleep)?;
    ensure!(told.starts_with(b"this"), "other data");
    ensure!(remote.qp_num == receiver.number(), "{remote:?}");
    ensure!(remote.qkey == bindings::RDMA_UDP_QKEY, "{remote:?}");
    send(&endpoint, (device, &remote, 1), sleep)?;
    ensure!(received.wait_timeout(5000, sleep), "not received");
    let lookup = datagram::Route::resolve(device, net, &options, (None, &there), sleep)?.begin(
        parts.qp(sleep)?,
        b"",
        sleep,
    )?;
    listener.next(5000, sleep)?.reject(b"no", sleep)?;
    match lookup.answer(sleep)?.err() {
        Some(Unreachable::Refused(status, why)) => {
            ensure!(status == bindings::IB_SIDR_REJECT, "status {status}");
            ensure!(why.starts_with(b"no"), "{why:?}");
            Ok(())
        }
        other => {
            pr_info!("  {other:?}\n");
            Err(EIO)
        }
    }
}

/// A group is joined, hears itself, and is left.
fn group(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (net, options) = (&net(device)?, Options::default());
    let (parts, own) = (Parts::new(device, sleep)?, Address::V4(address(device)?, 0));
    let to = Address::V4([239, 1, 2, 3], 0);
    let qp = parts.qp(sleep)?;
    let mut member = Endpoint::bind(device, net, &options, (&own, qp), sleep)?;
    member.join(&to, Membership::Full, sleep)?;
    let again = member.join(&to, Membership::Full, sleep).err();
    ensure!(again == Some(EEXIST), "{again:?}");
    let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    for _ in 0..2 {
        member.post_receive(Work::new(device, 256, Waited(received.clone()), sleep)?)?;
    }
    let qp = parts.qp(sleep)?;
    let mut sender = Endpoint::bind(device, net, &options, (&own, qp), sleep)?;
    let remote = sender.join(&to, Membership::SendOnly, sleep)?;
    send(&sender, (device, &remote, 1), sleep)?;
    ensure!(received.wait_timeout(5000, sleep), "not received");
    member.leave(&to, sleep)?;
    send(&sender, (device, &remote, 1), sleep)?;
    ensure!(!received.wait_timeout(200, sleep), "received after leaving");
    let gone = member.leave(&to, sleep).err();
    ensure!(gone == Some(ENOENT), "{gone:?}");
    Ok(())
}

/// What programs say, if they run: `udaddy` as a server, `mckey` as a receiver.
fn programs(device: &Device<'_>, sleep: &MaySleep) -> Result {
    let (net, options) = (&net(device)?, Options::default());
    let (parts, own) = (Parts::new(device, sleep)?, address(device)?);
    let there = Address::V4(own, UDADDY);
    let route = datagram::Route::resolve(device, net, &options, (None, &there), sleep)?;
    match route.begin(parts.qp(sleep)?, b"", sleep)?.answer(sleep)? {
        Ok((_, remote, _)) => pr_info!("peer|udaddy|queue pair {}\n", remote.qp_num),
        Err(Unreachable::Refused(status, _)) => pr_info!("peer|udaddy|refuses: {status}\n"),
        Err(Unreachable::Error(error)) => pr_info!("peer|udaddy|{error:?}\n"),
    }
    let here = (&Address::V4(own, 0), parts.qp(sleep)?);
    let mut sender = Endpoint::bind(device, net, &options, here, sleep)?;
    let remote = sender.join(&GROUP, Membership::SendOnly, sleep)?;
    send(&sender, (device, &remote, 10), sleep)
}

/// What the client has of a device.
struct PerDevice<'d> {
    /// Connections that exist until the device is removed: of those who wait for events, and of those who handle them.
    stays: Option<(Pair<'d>, Both<'d>)>,
    /// What comes by the device to identifiers without one.
    arrivals: Option<Pin<KBox<Arrivals<'d>>>>,
}

struct TestClient;

static TABLE: Table<TestClient> = Table::new();

impl Client for TestClient {
    type Data<'d> = PerDevice<'d>;

    const NAME: &'static CStr = c"cm_client";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Self::Data<'d>> {
        let both = || Both::connected(device, &at4(device)?, sleep);
        let pair = Pair::new(device, sleep).ok();
        Ok(PerDevice {
            stays: pair.zip(both().ok()),
            arrivals: Arrivals::new(device, sleep).ok(),
        })
    }

    /// What a connection was told that nobody has waited for.
    fn remove<'d>(_device: &Device<'d>, data: &PerDevice<'d>, sleep: &MaySleep) {
        if let Some((pair, _)) = &data.stays {
            while let Ok(event) = pair.from.next_event(0, sleep) {
                pr_info!("told|who waits|{event:?}\n");
            }
        }
    }
}

/// Logs the result of a test.
fn report(name: &str, result: Result) {
    match result {
        Ok(()) => pr_info!("pass|{name}\n"),
        Err(error) => pr_info!("fail|{name}|{error:?}\n"),
    }
}

/// Tests of handlers.
fn report_handlers(device: &Device<'_>, sleep: &MaySleep) {
    let done = at4(device).and_then(|own| handlers::connect(device, own, sleep));
    report("handlers: a connection", done);
    let done = at6(device).and_then(|own| handlers::connect(device, own, sleep));
    report("handlers: a connection by IPv6", done);
    let done = at4(device).and_then(|own| handlers::refuse(device, own, sleep));
    report("handlers: each way to refuse", done);
    let done = at4(device).and_then(|own| handlers::adopt(device, own, sleep));
    report("handlers: a request moves", done);
    let done = at4(device).and_then(|own| handlers::datagrams(device, own, sleep));
    report("handlers: datagrams", done);
    let done = at6(device).and_then(|own| handlers::datagrams(device, own, sleep));
    report("handlers: datagrams by IPv6", done);
}

/// Tests of identifiers without a device, and of groups of handlers.
fn report_anywhere<'d>(
    client: &Registration<TestClient>,
    at: (&Device<'d>, &PerDevice<'d>),
    sleep: &MaySleep,
) {
    let done = at4(at.0).and_then(|own| anywhere::anywhere(client, at, &own, sleep));
    report("any device: a listener and a connection", done);
    let done = at6(at.0).and_then(|own| anywhere::anywhere(client, at, &own, sleep));
    report("any device: by IPv6", done);
    let done = at4(at.0).and_then(|own| groups::join(at.0, own, sleep));
    report("handlers: multicast groups", done);
    let gid = at.0.gid(1, 0).map(|gid| gid.gid());
    let here = gid.map(|gid| Address::Ib(gid, 0, 0xffff));
    let bound = here.and_then(|here| {
        let net = net(at.0)?;
        Listener::new(at.0, &net, &here, 1, sleep).map(drop)
    });
    let none = bound.err() == Some(ENODEV);
    report(
        "no GID of RoCE is an address",
        none.then_some(()).ok_or(EIO),
    );
}

/// Tests on a device of InfiniBand.
fn report_ib(device: &Device<'_>, sleep: &MaySleep) {
    let done = at_gid(device).and_then(|own| Pair::between(device, own, sleep).map(drop));
    report("by GIDs: a connection", done);
    let done = at_gid(device).and_then(|own| Both::connected(device, &own, sleep).map(drop));
    report("by GIDs: handlers, a connection", done);
    report("multicast groups of IPoIB", groups::join_ib(device, sleep));
}

/// Lets each device look for the way to an address of another one in its namespace.
fn report_others(client: &Registration<TestClient>, sleep: &MaySleep) {
    let mut all = KVec::new();
    let found = client.visit(
        |device, _, _| {
            if !device.is_roce(1) {
                return None;
            }
            let found = net(device).and_then(|net| Ok((net.cookie(), address(device)?)));
            found
                .and_then(|found| Ok(all.push(found, GFP_KERNEL)?))
                .err()
        },
        sleep,
    );
    report("the addresses of all devices", found.map_or(Ok(()), Err));
    client.visit::<()>(
        |device, _, sleep| {
            let (cookie, own) = (net(device).ok()?.cookie(), address(device).ok()?);
            let is_other = |(net, address): &&(u64, [u8; 4])| *net == cookie && *address != own;
            if let Some((_, other)) = all.iter().find(is_other) {
                let done = handlers::elsewhere(device, Address::V4(*other, 0), sleep);
                report("handlers: another device", done);
            }
            None
        },
        sleep,
    );
}

/// The module. The members are dropped in this order.
struct Test {
    _watchers: KVec<Watcher>,
    _client: Registration<TestClient>,
    _closing: InstalledQueue,
}

impl ProcessModule for Test {
    fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
        let closing = any_device::closing_queue(sleep)?;
        let client = TABLE.register(sleep)?;
        let mut watchers = KVec::new();
        client.visit::<()>(
            |device, data, sleep| {
                if !device.is_roce(1) {
                    report_ib(device, sleep);
                    return None;
                }
                let made = data.stays.as_ref().map(drop).ok_or(EIO);
                report("a connection that stays", made);
                report(
                    "a message goes, both ends disconnect",
                    connect(device, sleep),
                );
                report("both ends are dropped", abandon(device, sleep));
                report("a peer is rejected", rejected(device, sleep));
                report("addresses that cannot be", impossible(device, sleep));
                report("a connection by IPv6", connect6(device, sleep));
                report("reasons of rejections", reasons(device, sleep));
                report("the events of an end", events(device, sleep));
                let done = at4(device).and_then(|own| datagrams(device, own, sleep));
                report("datagrams", done);
                let done = at6(device).and_then(|own| datagrams(device, own, sleep));
                report("datagrams by IPv6", done);
                report("a multicast group", group(device, sleep));
                report("programs", programs(device, sleep));
                report_handlers(device, sleep);
                report_anywhere(&client, (device, data), sleep);
                let watcher =
                    at4(device).and_then(|own| anywhere::watch(&client, device, &own, sleep));
                let watches = watcher.and_then(|one| Ok(watchers.push(one, GFP_KERNEL)?));
                report("any device: a listener that stays", watches);
                None
            },
            sleep,
        );
        report_others(&client, sleep);
        pr_info!("done\n");
        Ok(Self {
            _watchers: watchers,
            _client: client,
            _closing: closing,
        })
    }
}
