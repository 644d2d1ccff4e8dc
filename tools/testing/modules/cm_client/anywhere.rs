// SPDX-License-Identifier: GPL-2.0

//! Listeners and connections that have no device at first.

use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::sync::new_mutex;
use rdma::{
    client::{table::Registration, Device},
    MaySleep,
};
use rdma_cm::{
    any_device::{AnyDevice, Handler, Resolved},
    handler::Request,
    Address, Event, Options, Reason, Tcp,
};

use crate::{
    ensure,
    handlers::{self, expect_end, Active, ActiveId, Answer, At, Note, Notes, Passive},
    net, PerDevice, TestClient,
};

/// What has come by a device: requests, and connections whose route begins there.
#[pin_data]
pub(crate) struct Arrivals<'d> {
    asks: Arc<Notes>,
    answers: Arc<Notes>,
    passive: Pin<KBox<Passive<'d>>>,
    #[pin]
    active: Mutex<Option<ActiveId<'d>>>,
}

impl<'d> Arrivals<'d> {
    pub(crate) fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<Pin<KBox<Self>>> {
        let (asks, answers) = (Notes::new()?, Notes::new()?);
        let passive = Passive::new(device, Answer::Accept, &answers, sleep)?;
        let init = pin_init!(Self {
            asks,
            answers,
            passive,
            active <- new_mutex!(None, "Arrivals::active"),
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    /// Both ends of a connection are told that it is there; the active one disconnects.
    fn connected(&self, active: &ActiveId<'d>, asks: &Notes, sleep: &MaySleep) -> Result {
        asks.expect(
            &[Note::AddrResolved, Note::RouteResolved, Note::Response],
            sleep,
        )?;
        self.answers.expect(&[Note::Established], sleep)?;
        active.disconnect(sleep)?;
        self.answers.expect(&[Note::Disconnected], sleep)?;
        asks.expect(&[Note::Disconnected, Note::TimewaitExit], sleep)?;
        expect_end(|| active.has_ended(), sleep)?;
        self.passive.clear();
        Ok(())
    }
}

/// Who is asked by any device.
struct Everywhere;

impl Handler<TestClient, Tcp> for Everywhere {
    fn request<'d>(
        &self,
        (_, data): (&Device<'d>, &PerDevice<'d>),
        request: Request<'_, 'd, Tcp>,
        sleep: &MaySleep,
    ) -> Result {
        let arrivals = data.arrivals.as_ref().ok_or(ENODEV)?;
        handlers::hear(&arrivals.passive, request, sleep)
    }
}

/// Who hears of no request, but of the device's end and of its address.
pub(crate) struct Deaf;

impl Handler<TestClient, Tcp> for Deaf {
    fn event(&self, event: Event, _sleep: &MaySleep) -> Result {
        pr_info!("told|a listener without a device|{event:?}\n");
        Ok(())
    }
}

/// Who asks by the device that it finds, or does not go on.
struct Finder {
    goes_on: bool,
}

impl Handler<TestClient, Tcp> for Finder {
    fn resolved<'d>(
        &self,
        (device, data): (&Device<'d>, &PerDevice<'d>),
        resolved: Resolved<'_, 'd, Tcp>,
        sleep: &MaySleep,
    ) -> Result {
        let arrivals = data.arrivals.as_ref().ok_or(ENODEV)?;
        if self.goes_on {
            let active = Active::new(device, &arrivals.asks, sleep)?;
            *arrivals.active.lock() = Some(resolved.adopt(active)?);
        }
        Ok(())
    }
}

/// A listener that waits for the end of a device.
pub(crate) type Watcher = AnyDevice<TestClient, Tcp, Deaf>;

/// Listens on an address of a device, without knowing whose it is.
pub(crate) fn watch(
    client: &Registration<TestClient>,
    device: &Device<'_>,
    own: &impl At,
    sleep: &MaySleep,
) -> Result<Watcher> {
    let (net, options, at) = (net(device)?, Options::default(), own(0));
    AnyDevice::listen(client, &net, &options, (&at, 1), Deaf, sleep)
}

/// A listener on the wildcard address hears by each address, and refuses; a route finds the device.
pub(crate) fn anywhere<'d>(
    client: &Registration<TestClient>,
    (device, data): (&Device<'d>, &PerDevice<'d>),
    own: &impl At,
    sleep: &MaySleep,
) -> Result {
    let (net, options) = (&net(device)?, Options::default());
    let arrivals = data.arrivals.as_ref().ok_or(ENODEV)?;
    let any = Address::any(0);
    let listener = AnyDevice::listen(client, net, &options, (&any, 4), Everywhere, sleep)?;
    let port = listener.port()?;

    let notes = Notes::new()?;
    let active = handlers::ask(device, (own, port), &notes, sleep)?;
    arrivals.connected(&active, &notes, sleep)?;

    let (there, goes_on) = (own(port), true);
    let ends = (None, &there);
    let finder = AnyDevice::resolve(client, net, &options, ends, Finder { goes_on }, sleep)?;
    expect_end(|| finder.has_ended(), sleep)?;
    let active = arrivals.active.lock().take().ok_or(ENOENT)?;
    arrivals.connected(&active, &arrivals.asks, sleep)?;

    let goes_on = false;
    let finder = AnyDevice::resolve(client, net, &options, ends, Finder { goes_on }, sleep)?;
    expect_end(|| finder.has_ended(), sleep)?;
    ensure!(arrivals.active.lock().is_none(), "nobody has adopted it");
    ensure!(!listener.has_ended(), "the listener has ended");
    drop(listener);

    let deaf = AnyDevice::listen(client, net, &options, (&any, 4), Deaf, sleep)?;
    let notes = Notes::new()?;
    let _active = handlers::ask(device, (own, deaf.port()?), &notes, sleep)?;
    let refused = Note::Rejected(Some(Reason::CONSUMER_DEFINED), 0);
    notes.expect(&[Note::AddrResolved, Note::RouteResolved, refused], sleep)
}
