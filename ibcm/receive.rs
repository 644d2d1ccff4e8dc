// SPDX-License-Identifier: GPL-2.0

//! Messages that come: those for an identifier go into its inbox, requests make a new one.
//!
//! A request is answered to its sender, whose address takes up to a second to find. So requests wait with their port for a search, and
//! other messages are received meanwhile.
//!
//! C header: `include/rdma/ib_cm.h`.

use core::sync::atomic::Ordering;

use ib_cm_protocol::{
    connection::Connection,
    counters::Group,
    field::{Data, DATA_SIZE},
    messages::{
        self, Attribute, Drep, Dreq, Rej, Rep, Req, SidrRep, SidrReq, SidrStatus, PERMISSIVE,
    },
    reject::Reason,
    remote::{addressee, again, sender_id, Addressee, Admission, Remote, SidrKey},
    states::{Input, State},
};
use kernel::{impl_has_work, prelude::*, sync::Arc};
use kernel_ext::{
    sleepable::{self, Sleepable, SleepableWork},
    uses::Use,
};
use rdma::{
    client::mad::Received,
    core::{
        cm::{id::IdBody, trace},
        path::{NewPath, Path, PathKind},
    },
    Gid, MaySleep,
};

use crate::{
    address::{self, sender, Common},
    end,
    id::{Av, CmId, Entry, Offer, Refused},
    port::{Port, Search},
    seek::{parts_of, seek},
    send::{answer, answer_to, put, Header, With},
    tables,
};

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Search { self.work }
}

impl SleepableWork for Search {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        while let Some(received) = this.next(sleep) {
            late(&this, received, sleep);
        }
    }
}

/// Takes a message of a port, without waiting for the address of its sender.
pub(crate) fn message(port: &Arc<Port>, received: Received, sleep: &MaySleep) {
    let Some((header, data)) = parts_of(&received) else {
        return;
    };
    port.count(Group::Received, header.attribute, 1);
    if port.is_roce && matches!(header.attribute, Attribute::Lap | Attribute::Apr) {
        // Stock has no messages about alternate paths on RoCE.
        return;
    }
    let target = addressee(header.attribute, data);
    let is_old = target != Addressee::New;
    if let Some(id) = is_old.then(|| find(header.attribute, data)).flatten() {
        deliver(&id, header.attribute, received, port, sleep);
        return;
    }
    if header.attribute == Attribute::Rep {
        trace::icm_remote_no_priv_err(Rep::read(data).remote_comm_id);
    }
    // The REQ of a peer that gives up may wait itself: what names the peer alone comes after it.
    let is_behind =
        matches!(target, Addressee::Peer { .. }) && port.has_requests(&received.origin(), sleep);
    let is_answered = target == Addressee::New || header.attribute == Attribute::Dreq;
    if is_behind || is_answered {
        seek(port, received, sleep);
    }
}

/// Puts a message into the inbox of its identifier, which may have ended since it was found.
fn deliver(
    id: &Arc<CmId>,
    attribute: Attribute,
    received: Received,
    port: &Arc<Port>,
    sleep: &MaySleep,
) {
    let entry = Entry::Message(attribute, received, port.clone());
    if let Err(Refused::Ended(entry)) = id.post(entry) {
        end::pass_on(entry, sleep);
    }
}

/// Takes a message that has waited.
fn late(search: &Arc<Search>, received: Received, sleep: &MaySleep) {
    let Some((header, &data)) = parts_of(&received) else {
        return;
    };
    let port = &search.port;
    if let Some(id) = find(header.attribute, &data) {
        deliver(&id, header.attribute, received, port, sleep);
        return;
    }
    if header.attribute == Attribute::Rej {
        return;
    }
    let sender = sender(&received, port, sleep);
    search.ends(sender.is_ok(), sleep);
    // Who is not there gets nothing.
    let Ok(sender) = sender else { return };
    let incoming = Incoming {
        port,
        received,
        header,
        data,
        sender,
    };
    // What a peer gets for a message that cannot be taken is decided below; an error is that there is no memory, and it asks again.
    let _ = match header.attribute {
        Attribute::Req => incoming.request(sleep),
        Attribute::SidrReq => incoming.resolution(sleep),
        _ => incoming.nobody(sleep),
    };
}

/// Drops the messages of a port that wait. None is taken after this returns.
pub(crate) fn close(port: &Arc<Port>, sleep: &MaySleep) {
    for search in port.close_requests(sleep) {
        sleepable::cancel_sync(&search, sleep);
    }
}

/// The identifier that a message is for.
fn find(attribute: Attribute, data: &Data) -> Option<Arc<CmId>> {
    let found = |addressee| {
        tables::with(|tables| {
            let id = match addressee {
                Addressee::Ids { local, remote } => tables.find(local, remote),
                Addressee::Peer { ca_guid, comm_id } => tables.of_peer(ca_guid, comm_id),
                Addressee::New | Addressee::Nobody => None,
            };
            id.ok_or(ENOENT)
        })
        .ok()
    };
    let first = found(addressee(attribute, data));
    match attribute {
        Attribute::Rep => first.or_else(|| found(again(&Rep::read(data)))),
        _ => first,
    }
}

/// A REJ of a REQ or a REP, for which there is no identifier.
fn rejection(
    header: Header,
    (local, remote): (u32, u32),
    about: messages::About,
    (reason, info): (Reason, &[u8]),
) -> (Header, Data) {
    let mut data = [0; DATA_SIZE];
    Rej {
        local_comm_id: local,
        remote_comm_id: remote,
        message_rejected: about as u8,
        rejected_info_length: info.len() as u8,
        reason: reason as u16,
    }
    .write(&mut data);
    put(Rej::ARI, &mut data, info);
    let header = Header {
        attribute: Attribute::Rej,
        modifier: 0,
        ..header
    };
    (header, data)
}

/// Tells that a REQ is refused, by its first two numbers.
fn issuing_rej(data: &Data) {
    let second = data.get(4..).and_then(|rest| rest.first_chunk()).copied();
    trace::icm_issue_rej(
        sender_id(data),
        u32::from_be_bytes(second.unwrap_or_default()),
    );
}

/// Refuses a REP whose sender's queue pair is that of another connection.
pub(crate) fn refuse_stale(
    port: &Arc<Port>,
    received: &Received,
    header: Header,
    rep: &Rep,
    sleep: &MaySleep,
) -> Result {
    let ids = (rep.remote_comm_id, rep.local_comm_id);
    let refusal = (Reason::StaleConn, &[][..]);
    trace::icm_issue_rej(rep.local_comm_id, rep.remote_comm_id);
    let (header, data) = rejection(header, ids, messages::About::Rep, refusal);
    answer(port, received, header, false, &data, sleep)
}

/// A request of a peer.
struct Incoming<'a> {
    port: &'a Arc<Port>,
    received: Received,
    header: Header,
    data: Data,
    sender: Av,
}

/// A number that no identifier has yet. Dropping it frees it.
struct Number(u32);

impl Number {
    fn take() -> Result<Self> {
        tables::with(|tables| tables.take_number()).map(Self)
    }

    /// The number is that of an identifier.
    fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let freed = tables::with(|tables| Ok(tables.free_number(self.0)));
        drop(freed);
    }
}

impl Incoming<'_> {
    /// A message that is for nobody: a peer that disconnects hears that there is no connection.
    // Not inlined: one stack frame for all kinds of requests is too large.
    #[inline(never)]
    fn nobody(&self, sleep: &MaySleep) -> Result {
        self.port.count(Group::Duplicates, Attribute::Dreq, 1);
        let dreq = Dreq::read(&self.data);
        trace::icm_issue_drep(dreq.local_comm_id, dreq.remote_comm_id);
        trace::icm_no_priv_err(dreq.local_comm_id, dreq.remote_comm_id);
        let mut reply = [0; DATA_SIZE];
        Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
        }
        .write(&mut reply);
        let header = Header {
            attribute: Attribute::Drep,
            modifier: 0,
            ..self.header
        };
        answer_to(&self.sender, header, true, &reply, sleep)
    }

    /// The listener for a service.
    fn listener(&self, service: u64, sleep: &MaySleep) -> Result<Use<CmId>> {
        self.port.with(sleep, |agents| {
            let device = agents.usual.device();
            tables::with(|tables| {
                let listener = tables.listener(device, service);
                listener.and_then(|id| Use::new(&id)).ok_or(ENOENT)
            })
        })
    }

    fn first_gid(&self, sleep: &MaySleep) -> Option<Gid> {
        let number = self.port.number;
        let found = self.port.with(sleep, |agents| {
            rdma::core::address_vector::first_gid(agents.usual.device(), number)
        });
        found.ok()
    }

    fn refuse(&self, req: &Req, number: &Number, reason: Reason, sleep: &MaySleep) -> Result {
        let ids = (0, req.local_comm_id);
        let gid = match reason {
            // The peer hears of one that the port has, if it has any.
            Reason::InvalidGid => self.first_gid(sleep),
            // Here it is the one that the peer's own path leads to.
            Reason::InvalidAltGid => Some(Gid(req.primary().remote_gid.0)),
            _ => None,
        };
        let info = gid.as_ref().map_or(&[][..], |gid| &gid.0);
        let refusal = (reason, info);
        self.tell_refused(req, number, reason);
        let (header, data) = rejection(self.header, ids, messages::About::Req, refusal);
        answer_to(&self.sender, header, false, &data, sleep)
    }

    /// A peer asks for a connection.
    // Not inlined: one stack frame for all kinds of requests is too large.
    #[inline(never)]
    fn request(self, sleep: &MaySleep) -> Result {
        let req = Req::read(&self.data);
        let remote = Remote::of_req(&req);
        let number = Number::take()?;
        let admission = tables::with(|tables| tables.admit(number.0, &remote))?;
        match admission {
            Admission::New => {}
            Admission::Duplicate(owner) => {
                self.tell_not_taken(&req, &number);
                self.again(owner);
                return Ok(());
            }
            Admission::Stale(owner) => {
                let refused = self.refuse(&req, &number, Reason::StaleConn, sleep);
                disconnect_stale(owner, sleep);
                return refused;
            }
        }
        let made = self.make(&req, &number, sleep);
        match made {
            Ok((id, offer)) => {
                id.with(sleep, |inner| {
                    inner.admitted = Some(remote);
                    inner.drive(&id, Input::Req, &With::default(), sleep)
                })?;
                let port = self.port.clone();
                let entry = Entry::Offered(Attribute::Req, self.received, port, offer);
                hand_over(&id, number, entry, sleep);
                Ok(())
            }
            Err(reason) => {
                tables::change(|tables| tables.forget(number.0, &remote));
                reason.map_or(Ok(()), |reason| self.refuse(&req, &number, reason, sleep))
            }
        }
    }

    /// Makes the identifier. The error is why the peer is refused, if it is told.
    fn make(
        &self,
        req: &Req,
        number: &Number,
        sleep: &MaySleep,
    ) -> Result<(Arc<CmId>, Offer), Option<Reason>> {
        let no_memory = |_| None;
        let listener = self.listener(req.service_id, sleep);
        let listener = listener.map_err(|_| Some(Reason::InvalidServiceId))?;
        let (mut primary, mut alternate) = self.paths(req);
        let av = self.way_back(req, &mut primary, sleep);
        let av = av.map_err(|_| Some(Reason::InvalidGid))?;
        let other = alternate
            .as_mut()
            .map(|path| address::alternate(path, sleep))
            .transpose()
            .map_err(|_| Some(Reason::InvalidAltGid))?;
        let body: IdBody = listener.body.for_request(number.0.to_be());
        body.set_service_id(req.service_id.to_be());
        let connection = Connection::from_req(number.0, self.header.transaction, req);
        let device = self.port.attached(sleep).map_err(no_memory)?;
        let id = CmId::new(body, connection, Some(device)).map_err(no_memory)?;
        let boxed = |path| KBox::new(path, GFP_KERNEL).map_err(|_| None);
        let shared = |av| Arc::new(av, GFP_KERNEL).map_err(|_| None);
        let offer = Offer {
            listener,
            primary: Some(boxed(primary)?),
            alternate: alternate.map(boxed).transpose()?,
        };
        let (av, other) = (shared(av)?, other.map(shared).transpose()?);
        id.with(sleep, |inner| {
            (inner.av, inner.alternate) = (Some(av), other)
        });
        Ok((id, offer))
    }

    /// An identifier for a REQ that no client has, to tell of.
    fn unclaimed(&self, req: &Req, number: &Number) -> IdBody {
        let body = IdBody::unclaimed(&self.sender.device, number.0.to_be());
        let remote_id = req.local_comm_id.to_be();
        body.numbers().remote_id.store(remote_id, Ordering::Relaxed);
        body
    }

    /// Tells that a REQ is for no listener: there is none, or it has come before, or its queue pair has a connection.
    fn tell_not_taken(&self, req: &Req, number: &Number) {
        trace::icm_no_listener_err(&self.unclaimed(req, number), State::ReqRcvd as u32);
    }

    /// Tells that a REQ is refused.
    fn tell_refused(&self, req: &Req, number: &Number, reason: Reason) {
        let body = self.unclaimed(req, number);
        match reason {
            // There is a listener for it.
            Reason::InvalidGid | Reason::InvalidAltGid => {
                trace::icm_send_rej(&body, State::ReqRcvd as u32, reason as u32)
            }
            _ => {
                issuing_rej(&self.data);
                self.tell_not_taken(req, number);
            }
        }
    }

    /// The paths from here to who asks: the primary one, and the alternate one if there is one.
    fn paths(&self, req: &Req) -> (Path, Option<Path>) {
        let sender = &self.sender.vector;
        let wc = self.received.completion();
        let kind = match sender.sgid() {
            Some(sgid) if sender.is_roce() => match sgid.kind() {
                kernel_ext::bindings::IB_GID_TYPE_ROCE => PathKind::RoceV1,
                _ => PathKind::RoceV2,
            },
            _ => PathKind::Ib,
        };
        let common = Common {
            kind,
            service_id: req.service_id,
            pkey: req.partition_key,
            mtu: req.path_packet_payload_mtu,
        };
        let routed = |told: messages::Path| match kind {
            PathKind::Ib => told.routed(wc.slid as u16, wc.sl, wc.dlid_path_bits),
            _ => told,
        };
        let told = routed(req.primary());
        let primary = Path::new(&NewPath {
            lids: (told.remote_lid, wc.slid as u16),
            dmac: sender.dmac(),
            hop_limit: sender.hop_limit(),
            ..address::back(&told, common)
        });
        let alternate = req.has_alternate();
        let alternate =
            alternate.then(|| Path::new(&address::back(&routed(req.alternate()), common)));
        (primary, alternate)
    }

    /// The address by the primary path to who asks.
    fn way_back(&self, req: &Req, path: &mut Path, sleep: &MaySleep) -> Result<Av> {
        let sgid = self.sender.vector.sgid();
        let av = address::from_port(self.port.clone(), path, sgid, sleep)?;
        let lid = req.primary_local_port_lid;
        Ok(Av {
            data_lid: (av.vector.is_ib() && !matches!(lid, 0 | PERMISSIVE)).then_some(lid),
            ..av
        })
    }

    /// A REQ that has come before.
    fn again(self, owner: u32) {
        let found = tables::with(|tables| tables.by_number(owner).ok_or(ENOENT));
        match found {
            Ok(id) => {
                let entry = Entry::Message(Attribute::Req, self.received, self.port.clone());
                let _ = id.post(entry);
            }
            // Its identifier is being made.
            Err(_) => self.port.count(Group::Duplicates, Attribute::Req, 1),
        }
    }

    /// A peer asks for the queue pair of a service.
    // Not inlined: one stack frame for all kinds of requests is too large.
    #[inline(never)]
    fn resolution(self, sleep: &MaySleep) -> Result {
        let req = SidrReq::read(&self.data);
        let key = SidrKey {
            request_id: req.requestid,
            slid: self.received.completion().slid,
        };
        let device = self.port.attached(sleep)?;
        let number = Number::take()?;
        if !tables::with(|tables| tables.note_sidr(key, number.0))? {
            self.port.count(Group::Duplicates, Attribute::SidrReq, 1);
            return Ok(());
        }
        let forget = || tables::change(|tables| tables.forget_sidr(&key));
        let Ok(listener) = self.listener(req.serviceid, sleep) else {
            forget();
            return self.no_service(&req, sleep);
        };
        let body = listener.body.for_request(number.0.to_be());
        body.set_service_id(req.serviceid.to_be());
        let connection = Connection::from_sidr_req(number.0, self.header.transaction, &req);
        let made = Arc::new(self.sender, GFP_KERNEL)
            .map_err(Error::from)
            .and_then(|av| Ok((av, CmId::new(body, connection, Some(device))?)));
        let (av, id) = made.inspect_err(|_| forget())?;
        id.with(sleep, |inner| {
            inner.av = Some(av);
            inner.sidr = Some(key);
            inner.drive(&id, Input::SidrReq, &With::default(), sleep)
        })?;
        let offer = Offer {
            listener,
            primary: None,
            alternate: None,
        };
        let port = self.port.clone();
        let entry = Entry::Offered(Attribute::SidrReq, self.received, port, offer);
        hand_over(&id, number, entry, sleep);
        Ok(())
    }

    /// Nobody listens for the service.
    fn no_service(&self, req: &SidrReq, sleep: &MaySleep) -> Result {
        let mut data = [0; DATA_SIZE];
        SidrRep {
            requestid: req.requestid,
            status: SidrStatus::Unsupported as u8,
            serviceid: req.serviceid,
            ..SidrRep::default()
        }
        .write(&mut data);
        let header = Header {
            attribute: Attribute::SidrRep,
            modifier: 0,
            ..self.header
        };
        answer_to(&self.sender, header, false, &data, sleep)
    }
}

/// The identifier of a peer waits for its client. Without memory it ends: the peer asks again.
///
/// The request is the first in the inbox: the identifier is found, by messages with its number, after that.
fn hand_over(id: &Arc<CmId>, number: Number, entry: Entry, sleep: &MaySleep) {
    let is_there = id.put(entry).is_ok();
    let taken = number.0;
    number.keep();
    if !is_there {
        end::end(id, true, sleep);
        return;
    }
    tables::change(|tables| tables.publish(taken, id));
    id.start();
}

/// A connection whose queue pair the peer uses for another one ends.
pub(crate) fn disconnect_stale(owner: u32, sleep: &MaySleep) {
    let found = tables::with(|tables| tables.by_number(owner).ok_or(ENOENT));
    if let Ok(id) = found {
        // It may have ended.
        let _ = id.with(sleep, |inner| {
            inner.drive(&id, Input::SendDreq, &With::default(), sleep)
        });
    }
}
