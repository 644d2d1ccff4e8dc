// SPDX-License-Identifier: GPL-2.0

//! Connections and lookups whose events handlers handle.

use kernel::{
    prelude::*,
    sync::{Arc, Mutex},
};
use kernel_ext::{
    error::{EOPNOTSUPP, ESHUTDOWN},
    sync::{new_mutex, Completion as Done},
};
use rdma::{
    bindings,
    client::{
        op::RcOp,
        qp::{Init, Qp, Rc, Rts, Ud},
        Device, Work,
    },
    MaySleep,
};
use rdma_cm::{
    handler::{Handler, Handling, Id, Request},
    Address, Event, Options, Params, Reason, Tcp, Udp, Unreachable,
};

use crate::{ensure, is_asked, net, send_to, Parts, Waited, ECE, PARAMS};

/// What handlers were told, in order.
#[pin_data]
pub(crate) struct Notes {
    #[pin]
    list: Mutex<KVec<Note>>,
    #[pin]
    added: Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    AddrResolved,
    AddrError(i32),
    RouteResolved,
    Response,
    Rejected(Option<Reason>, u8),
    Established,
    Found,
    Refused(u32),
    Disconnected,
    TimewaitExit,
    Adopted,
    /// A group is joined, or not, with its number.
    Joined(usize),
    NotJoined(i32, usize),
    Other,
}

impl Notes {
    pub(crate) fn new() -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            list <- new_mutex!(KVec::new(), "Notes::list"),
            added <- Done::new(),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    pub(crate) fn add(&self, note: Note) -> Result {
        self.list.lock().push(note, GFP_KERNEL)?;
        self.added.complete();
        Ok(())
    }

    /// Waits for the notes of one of two lists. Whether they are of the first one.
    pub(crate) fn expect_either(
        &self,
        wanted: &[Note],
        others: &[Note],
        sleep: &MaySleep,
    ) -> Result<bool> {
        ensure!(self.added.wait_timeout(10_000, sleep), "nothing");
        self.added.complete();
        let is_wanted = self.list.lock().first() == wanted.first();
        let notes = if is_wanted { wanted } else { others };
        self.expect(notes, sleep).map(|()| is_wanted)
    }

    /// Waits for as many notes, of which the first have to be these.
    pub(crate) fn expect(&self, wanted: &[Note], sleep: &MaySleep) -> Result {
        for _ in wanted {
            let is_there = self.added.wait_timeout(10_000, sleep);
            ensure!(is_there, "{:?} for {wanted:?}", &**self.list.lock());
        }
        let mut list = self.list.lock();
        ensure!(list.starts_with(wanted), "{:?} for {wanted:?}", &**list);
        for _ in wanted {
            list.remove(0).map_err(|_| EIO)?;
        }
        Ok(())
    }
}

/// Waits until an identifier has ended.
pub(crate) fn expect_end(has_ended: impl Fn() -> bool, sleep: &MaySleep) -> Result {
    for _ in 0..1000 {
        if has_ended() {
            return Ok(());
        }
        sleep.sleep_ms(10);
    }
    Err(ETIMEDOUT)
}

/// Who asks for a connection.
#[pin_data]
pub(crate) struct Active<'d> {
    parts: Parts<'d>,
    notes: Arc<Notes>,
    #[pin]
    asking: Mutex<Option<Qp<'d, Rc, Init>>>,
    #[pin]
    connected: Mutex<Option<Qp<'d, Rc, Rts>>>,
}

impl<'d> Active<'d> {
    pub(crate) fn new(
        device: &Device<'d>,
        notes: &Arc<Notes>,
        sleep: &MaySleep,
    ) -> Result<Pin<KBox<Self>>> {
        let (parts, notes) = (Parts::new(device, sleep)?, notes.clone());
        let init = pin_init!(Self {
            parts,
            notes,
            asking <- new_mutex!(None, "Active::asking"),
            connected <- new_mutex!(None, "Active::connected"),
        });
        KBox::pin_init(init, GFP_KERNEL)
    }
}

pub(crate) type ActiveId<'d> = Id<'d, Tcp, Pin<KBox<Active<'d>>>>;

impl<'d> Handler<'d, Tcp> for Active<'d> {
    fn event(&self, id: &Handling<'_, 'd, Tcp>, event: Event, sleep: &MaySleep) -> Result {
        let (note, answer) = match event {
            Event::AddrResolved => (Note::AddrResolved, id.resolve_route()),
            Event::AddrError(error) => (Note::AddrError(error.to_errno()), Err(error)),
            Event::RouteResolved => {
                let qp = id.init(self.parts.qp(sleep)?, sleep)?;
                let params = Params { ece: ECE, ..PARAMS };
                let refused = id.connect(&qp, &params);
                ensure!(refused == Err(EOPNOTSUPP), "{refused:?}");
                let asked = id.connect(&qp, &PARAMS);
                *self.asking.lock() = Some(qp);
                (Note::RouteResolved, asked)
            }
            Event::ConnectResponse(offer) => {
                ensure!(offer.private_data.starts_with(ANSWER), "{offer:?}");
                ensure!(offer.ece == ECE, "{offer:?}");
                let qp = self.asking.lock().take().ok_or(EIO)?;
                *self.connected.lock() = Some(id.confirm(qp, sleep)?);
                (Note::Response, Ok(()))
            }
            Event::Rejected(why) => {
                let first = why.private_data.first().copied().unwrap_or(0);
                (Note::Rejected(why.reason, first), Err(ESHUTDOWN))
            }
            Event::Disconnected => (Note::Disconnected, Ok(())),
            Event::TimewaitExit => (Note::TimewaitExit, Err(ESHUTDOWN)),
            // The address of a bond has moved.
            Event::AddrChange => {
                pr_info!("told|a handler|{event:?}\n");
                (Note::Other, Ok(()))
            }
            _ => (Note::Other, Ok(())),
        };
        self.notes.add(note)?;
        answer
    }
}

const ANSWER: &[u8] = b"from the handler";

/// What a listener does with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Accept,
    /// The handler returns an error.
    Fail,
    /// Nobody takes the request.
    Ignore,
    Reject(Reason),
    /// It is taken over, for somebody else to answer.
    Adopt,
    /// It is taken over, and dropped in the handler.
    Lose,
}

/// Who is asked for connections.
#[pin_data]
pub(crate) struct Passive<'d> {
    parts: Parts<'d>,
    answer: Answer,
    notes: Arc<Notes>,
    received: Arc<Done>,
    #[pin]
    ids: Mutex<KVec<Id<'d, Tcp, End<'d>>>>,
}

/// The passive end of a connection.
struct End<'d> {
    notes: Arc<Notes>,
    _qp: Option<Qp<'d, Rc, Rts>>,
}

impl<'d> Handler<'d, Tcp> for End<'d> {
    fn event(&self, id: &Handling<'_, 'd, Tcp>, event: Event, _sleep: &MaySleep) -> Result {
        match event {
            Event::Established(_) => self.notes.add(Note::Established),
            Event::Disconnected => {
                self.notes.add(Note::Disconnected)?;
                id.disconnect()?;
                Err(ESHUTDOWN)
            }
            _ => self.notes.add(Note::Other),
        }
    }
}

type PassiveId<'d> = Id<'d, Tcp, Pin<KBox<Passive<'d>>>>;

impl<'d> Passive<'d> {
    pub(crate) fn new(
        device: &Device<'d>,
        answer: Answer,
        notes: &Arc<Notes>,
        sleep: &MaySleep,
    ) -> Result<Pin<KBox<Self>>> {
        let (parts, notes) = (Parts::new(device, sleep)?, notes.clone());
        let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
        let init = pin_init!(Self {
            parts,
            answer,
            notes,
            received,
            ids <- new_mutex!(KVec::new(), "Passive::ids"),
        });
        KBox::pin_init(init, GFP_KERNEL)
    }

    /// Ends the connections.
    pub(crate) fn clear(&self) {
        self.ids.lock().clear();
    }

    fn init(&self, request: &Request<'_, 'd, Tcp>, sleep: &MaySleep) -> Result<Qp<'d, Rc, Init>> {
        let qp = request.init(self.parts.qp(sleep)?, sleep)?;
        let work = Work::new(
            self.parts.pd.device(),
            64,
            Waited(self.received.clone()),
            sleep,
        )?;
        qp.post_receive(work)?;
        Ok(qp)
    }
}

/// Lets a listener of a device hear a request that has come by another one.
pub(crate) fn hear<'d>(
    passive: &Passive<'d>,
    request: Request<'_, 'd, Tcp>,
    sleep: &MaySleep,
) -> Result {
    Handler::request(passive, request, sleep)
}

impl<'d> Handler<'d, Tcp> for Passive<'d> {
    fn event(&self, _: &Handling<'_, 'd, Tcp>, _: Event, _: &MaySleep) -> Result {
        self.notes.add(Note::Other)
    }

    fn request(&self, request: Request<'_, 'd, Tcp>, sleep: &MaySleep) -> Result {
        let is_ours = is_asked(&request.get().private_data);
        ensure!(is_ours, "{:?}", request.get());
        let notes = self.notes.clone();
        match self.answer {
            Answer::Fail => Err(EACCES),
            Answer::Ignore => Ok(()),
            Answer::Reject(reason) => request.reject(reason, b"no"),
            Answer::Lose => request.adopt(End { notes, _qp: None }).map(drop),
            Answer::Adopt => {
                let id = request.adopt(End { notes, _qp: None })?;
                let deadlock = Error::from_errno(-(bindings::EDEADLK as i32));
                ensure!(id.port() == Err(deadlock), "{:?}", id.port());
                self.ids.lock().push(id, GFP_KERNEL)?;
                self.notes.add(Note::Adopted)
            }
            Answer::Accept => {
                let qp = self.init(&request, sleep)?;
                let qp = request.ready(qp, sleep)?;
                let params = Params {
                    private_data: ANSWER,
                    ece: ECE,
                    ..PARAMS
                };
                let end = |qp| End {
                    notes,
                    _qp: Some(qp),
                };
                let id = request.accept(qp, &params, end)?;
                Ok(self.ids.lock().push(id, GFP_KERNEL)?)
            }
        }
    }
}

/// A listener, and who asks it.
pub(crate) struct Both<'d> {
    active: ActiveId<'d>,
    passive: PassiveId<'d>,
    asks: Arc<Notes>,
    answers: Arc<Notes>,
}

/// The addresses of a device, by their ports.
pub(crate) trait At: Fn(u16) -> Address {}
impl<T: Fn(u16) -> Address> At for T {}

pub(crate) fn ask<'d>(
    device: &Device<'d>,
    (own, port): (&impl At, u16),
    notes: &Arc<Notes>,
    sleep: &MaySleep,
) -> Result<ActiveId<'d>> {
    let active = Active::new(device, notes, sleep)?;
    let (net, options) = (net(device)?, Options::default());
    let (here, there) = (own(0), own(port));
    let ends = (Some(&here), &there);
    Id::resolve(device, &net, &options, ends, active, sleep)
}

fn listen<'d>(
    device: &Device<'d>,
    (own, answer): (&impl At, Answer),
    notes: &Arc<Notes>,
    sleep: &MaySleep,
) -> Result<PassiveId<'d>> {
    let passive = Passive::new(device, answer, notes, sleep)?;
    let (net, options) = (net(device)?, Options::default());
    Id::listen(device, &net, &options, (&own(0), 4), passive, sleep)
}

impl<'d> Both<'d> {
    fn new(device: &Device<'d>, own: &impl At, answer: Answer, sleep: &MaySleep) -> Result<Self> {
        let (asks, answers) = (Notes::new()?, Notes::new()?);
        let passive = listen(device, (own, answer), &answers, sleep)?;
        let active = ask(device, (own, passive.port()?), &asks, sleep)?;
        asks.expect(&[Note::AddrResolved, Note::RouteResolved], sleep)?;
        Ok(Self {
            active,
            passive,
            asks,
            answers,
        })
    }

    /// Both ends are connected.
    pub(crate) fn connected(device: &Device<'d>, own: &impl At, sleep: &MaySleep) -> Result<Self> {
        let both = Self::new(device, own, Answer::Accept, sleep)?;
        both.asks.expect(&[Note::Response], sleep)?;
        both.answers.expect(&[Note::Established], sleep)?;
        Ok(both)
    }
}

/// A message goes, one end disconnects, and both end.
pub(crate) fn connect(device: &Device<'_>, own: impl At, sleep: &MaySleep) -> Result {
    let both = Both::connected(device, &own, sleep)?;
    let sent = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    let work = Work::new(device, 5, Waited(sent.clone()), sleep)?;
    match &*both.active.handler().connected.lock() {
        Some(qp) => qp.post_send(work, RcOp::Send)?,
        None => return Err(EIO),
    }
    ensure!(sent.wait_timeout(5000, sleep), "not sent");
    let received = &both.passive.handler().received;
    ensure!(received.wait_timeout(5000, sleep), "not received");
    both.active.disconnect(sleep)?;
    both.answers.expect(&[Note::Disconnected], sleep)?;
    both.asks
        .expect(&[Note::Disconnected, Note::TimewaitExit], sleep)?;
    expect_end(|| both.active.has_ended(), sleep)?;
    let after = both.active.disconnect(sleep);
    ensure!(after == Err(ENXIO), "{after:?}");
    let ids = both.passive.handler().ids.lock();
    expect_end(|| ids.iter().all(Id::has_ended), sleep)?;
    ensure!(ids.len() == 1, "{} connections", ids.len());
    ensure!(!both.passive.has_ended(), "the listener has ended");
    Ok(())
}

/// Each way to say no.
pub(crate) fn refuse(device: &Device<'_>, own: impl At, sleep: &MaySleep) -> Result {
    let consumer = Some(Reason::CONSUMER_DEFINED);
    let ways = [
        (Answer::Fail, consumer, 0),
        (Answer::Ignore, consumer, 0),
        (Answer::Lose, consumer, 0),
        (
            Answer::Reject(Reason::NO_RESOURCES),
            Some(Reason::NO_RESOURCES),
            b'n',
        ),
    ];
    for (answer, reason, first) in ways {
        let both = Both::new(device, &own, answer, sleep)?;
        both.asks.expect(&[Note::Rejected(reason, first)], sleep)?;
        expect_end(|| both.active.has_ended(), sleep)?;
    }
    let notes = Notes::new()?;
    let _active = ask(device, (&own, NOBODY), &notes, sleep)?;
    let reason = Some(Reason::INVALID_SERVICE_ID);
    let told = [
        Note::AddrResolved,
        Note::RouteResolved,
        Note::Rejected(reason, 0),
    ];
    notes.expect(&told, sleep)
}

/// A port on which nobody listens.
pub(crate) const NOBODY: u16 = 1;

/// A request moves from the handler to who answers it later.
pub(crate) fn adopt(device: &Device<'_>, own: impl At, sleep: &MaySleep) -> Result {
    let both = Both::new(device, &own, Answer::Adopt, sleep)?;
    both.answers.expect(&[Note::Adopted], sleep)?;
    let passive = both.passive.handler();
    let ids = passive.ids.lock();
    let id = ids.first().ok_or(EIO)?;
    let qp = id.init(passive.parts.qp(sleep)?, sleep)?;
    let qp = id.ready(qp, sleep)?;
    let params = Params {
        private_data: ANSWER,
        ece: ECE,
        ..PARAMS
    };
    id.accept(&qp, &params, sleep)?;
    both.asks.expect(&[Note::Response], sleep)?;
    both.answers.expect(&[Note::Established], sleep)?;
    let net = net(device)?;
    let other = Id::listen(
        device,
        &net,
        &Options::default(),
        (&own(both.passive.port()?), 4),
        End {
            notes: both.answers.clone(),
            _qp: None,
        },
        sleep,
    );
    let used = other.map(drop);
    let in_use = Error::from_errno(-(bindings::EADDRINUSE as i32));
    ensure!(used == Err(in_use), "{used:?}");
    both.active.disconnect(sleep)?;
    both.answers.expect(&[Note::Disconnected], sleep)
}

/// The way to an address begins at another device.
pub(crate) fn elsewhere(device: &Device<'_>, other: Address, sleep: &MaySleep) -> Result {
    let notes = Notes::new()?;
    let own = |_| other;
    let active = ask(device, (&own, NOBODY), &notes, sleep)?;
    notes.expect(&[Note::AddrError(ENODEV.to_errno())], sleep)?;
    expect_end(|| active.has_ended(), sleep)
}

/// The notes of who looks a queue pair up, or tells it, with the own queue pair.
#[pin_data]
struct Datagrams<'d> {
    parts: Parts<'d>,
    notes: Arc<Notes>,
    #[pin]
    qp: Mutex<Option<Qp<'d, Ud, Rts>>>,
}

impl<'d> Datagrams<'d> {
    fn new(device: &Device<'d>, sleep: &MaySleep) -> Result<(Pin<KBox<Self>>, Arc<Notes>)> {
        let (parts, notes) = (Parts::new(device, sleep)?, Notes::new()?);
        let told = notes.clone();
        let init = pin_init!(Self {
            parts,
            notes,
            qp <- new_mutex!(None, "Datagrams::qp"),
        });
        Ok((KBox::pin_init(init, GFP_KERNEL)?, told))
    }
}

/// Who asks, and sends a datagram to the queue pair that it is told.
struct Asker<'d>(Pin<KBox<Datagrams<'d>>>);

impl<'d> Handler<'d, Udp> for Asker<'d> {
    fn event(&self, id: &Handling<'_, 'd, Udp>, event: Event, sleep: &MaySleep) -> Result {
        let this = &self.0;
        let (note, answer) = match event {
            Event::AddrResolved => (Note::AddrResolved, id.resolve_route()),
            Event::RouteResolved => {
                let qp = id.ready(this.parts.qp(sleep)?, sleep)?;
                let asked = id.look_up(&qp, b"which");
                *this.qp.lock() = Some(qp);
                (Note::RouteResolved, asked)
            }
            Event::Found(remote, told) => {
                ensure!(told.starts_with(ANSWER), "{told:?}");
                let qp = this.qp.lock();
                let qp = qp.as_ref().ok_or(EIO)?;
                let device = this.parts.pd.device();
                (
                    Note::Found,
                    send_to(qp, &this.parts.pd, (device, &remote, 1), sleep),
                )
            }
            Event::Unreachable(Unreachable::Refused(status, _)) => {
                (Note::Refused(status), Err(ESHUTDOWN))
            }
            _ => (Note::Other, Ok(())),
        };
        this.notes.add(note)?;
        answer
    }
}

/// Who has the queue pair, if it has one.
struct Service<'d>(Pin<KBox<Datagrams<'d>>>);

impl<'d> Handler<'d, Udp> for Service<'d> {
    fn event(&self, _: &Handling<'_, 'd, Udp>, _: Event, _: &MaySleep) -> Result {
        self.0.notes.add(Note::Other)
    }

    fn request(&self, request: Request<'_, 'd, Udp>, _sleep: &MaySleep) -> Result {
        ensure!(request.get().starts_with(b"which"), "{:?}", request.get());
        let qp = self.0.qp.lock();
        request.accept(qp.as_ref().ok_or(ENOENT)?, ANSWER)
    }
}

/// A queue pair is looked up, and gets a datagram; then there is none.
pub(crate) fn datagrams(device: &Device<'_>, own: impl At, sleep: &MaySleep) -> Result {
    let (net, options) = (net(device)?, Options::default());
    let (has, _) = Datagrams::new(device, sleep)?;
    let (parts, at) = (Parts::new(device, sleep)?, own(0));
    let service = Id::listen(device, &net, &options, (&at, 4), Service(has), sleep)?;
    let received = Arc::pin_init(Done::new(), GFP_KERNEL)?;
    let qp = service.ready(parts.qp(sleep)?, sleep)?;
    qp.post_receive(Work::new(device, 256, Waited(received.clone()), sleep)?)?;
    let there = own(service.port()?);
    *service.handler().0.qp.lock() = Some(qp);
    let begin = [Note::AddrResolved, Note::RouteResolved];
    for end in [Note::Found, Note::Refused(bindings::IB_SIDR_REJECT)] {
        let (asks, notes) = Datagrams::new(device, sleep)?;
        let id = Id::resolve(device, &net, &options, (None, &there), Asker(asks), sleep)?;
        notes.expect(&begin, sleep)?;
        notes.expect(&[end], sleep)?;
        if end == Note::Found {
            ensure!(received.wait_timeout(5000, sleep), "not received");
            ensure!(!id.has_ended(), "the asker has ended");
            *service.handler().0.qp.lock() = None;
        } else {
            expect_end(|| id.has_ended(), sleep)?;
        }
    }
    ensure!(!service.has_ended(), "the service has ended");
    Ok(())
}
