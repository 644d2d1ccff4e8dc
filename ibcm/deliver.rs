// SPDX-License-Identifier: GPL-2.0

//! What has come for an identifier, one after the other: what it does to the connection, and telling the client.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::{
    field::{Data, Room},
    messages::{About, Apr, Attribute, Drep, Dreq, Lap, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq},
    reject::Reason,
    remote::{Admission, Remote},
    states::{Event as Told, Input},
    transport::Transport,
};
use kernel::{impl_has_work, prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{IB_QPT_RC, IB_QPT_UC, IB_QPT_XRC_TGT, IB_WC_GENERAL_ERR},
    sleepable::{Sleepable, SleepableWork},
};
use rdma::{
    client::mad::Received,
    core::{
        cm::{
            event::{Asked, Ece, Event, Reply, Request, Resolved, Unanswered},
            handler::{offer, tell},
            trace,
        },
        path::{Path, PathKind},
    },
    MaySleep,
};

use crate::{
    address::{self, Common},
    end,
    id::{Av, CmId, Entry, Offer},
    port::Port,
    receive,
    send::{data_of, header_of, With},
    tables,
};

impl_has_work! {
    impl HasWork<Sleepable<Self>> for CmId { self.work }
}

impl SleepableWork for CmId {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        let given_up = match this.next_entry() {
            Some(Entry::Message(Attribute::Lap, received, port)) => {
                offer_path(&this, &received, &port, sleep)
            }
            Some(Entry::Message(attribute, received, port)) => {
                message(&this, attribute, &received, &port, sleep)
            }
            Some(Entry::Offered(attribute, received, port, offered)) => {
                offer_peer(&this, attribute, &received, &port, &offered, sleep)
            }
            Some(Entry::Unanswered(serial, status)) => unanswered(&this, serial, status, sleep),
            Some(Entry::Expired(remote)) => expired(&this, remote, sleep),
            Some(Entry::Established) => established(&this, sleep),
            Some(Entry::Migrated) => migrated(&this, sleep),
            None => None,
        };
        if let Some((id, error)) = given_up {
            end::end(&id, error == ENOMEM, sleep);
        }
    }
}

/// The reference of a client whose handler has given its identifier up, and the error.
type GivenUp = Option<(Arc<CmId>, Error)>;

/// Bytes of a client in a message. The room is as large as the type says: both are of the same table.
fn room<const N: usize>(room: Room, data: &Data) -> &[u8; N] {
    const NONE: [u8; ib_cm_protocol::field::DATA_SIZE] = [0; ib_cm_protocol::field::DATA_SIZE];
    let found = room.get(data).first_chunk();
    found.unwrap_or_else(|| NONE.first_chunk().unwrap_or(&[0; N]))
}

/// What a message is for the table of states.
fn input_of(attribute: Attribute, data: &Data, is_known: bool) -> Option<Input> {
    Some(match attribute {
        Attribute::Req => Input::ReqAgain,
        Attribute::Rep if is_known => Input::RepAgain,
        Attribute::Rep => Input::Rep,
        Attribute::Rtu => Input::Rtu,
        Attribute::Mra => match About::from_bits(Mra::read(data).message_mraed)? {
            About::Req => Input::MraReq,
            About::Rep => Input::MraRep,
            About::Other => Input::MraOther,
        },
        Attribute::Rej if Rej::read(data).reason == Reason::StaleConn as u16 => Input::RejStale,
        Attribute::Rej => Input::Rej,
        Attribute::Dreq => Input::Dreq,
        Attribute::Drep => Input::Drep,
        Attribute::Apr => Input::Apr,
        Attribute::SidrRep => Input::SidrRep,
        Attribute::Lap | Attribute::SidrReq => return None,
    })
}

fn message(
    id: &Arc<CmId>,
    attribute: Attribute,
    received: &Received,
    port: &Arc<Port>,
    sleep: &MaySleep,
) -> GivenUp {
    let (header, data) = (header_of(received.bytes())?, data_of(received.bytes())?);
    let input = input_of(attribute, data, id.remote_id() != 0)?;
    let rep = (input == Input::Rep).then(|| Rep::read(data));
    if let Some(rep) = &rep {
        admit(id, rep, received, port, sleep)?;
    }
    let with = With {
        transaction: header.transaction,
        received: Some((received, port)),
        service_timeout: Mra::read(data).service_timeout,
        ..With::default()
    };
    let (told, av) = id.with(sleep, |inner| {
        let is_ours = attribute != Attribute::Dreq || inner.connection.is_for_us(&Dreq::read(data));
        let told = match is_ours {
            true => inner.drive(id, input, &with, sleep).ok().flatten(),
            false => None,
        };
        (told, inner.av.clone())
    });
    let told = told?;
    if told == Told::RepReceived {
        port.has_found(received.origin(), sleep);
    }
    let event = event_of(told, header.modifier, data, av.as_deref())?;
    tell(id, &event, sleep)
}

/// Takes the alternate path that a peer offers, and tells the client. One that does not lead from a port that is here is ignored.
fn offer_path(id: &Arc<CmId>, received: &Received, port: &Arc<Port>, sleep: &MaySleep) -> GivenUp {
    let (header, data) = (header_of(received.bytes())?, data_of(received.bytes())?);
    let lap = Lap::read(data);
    let (common, data_lid) = id.with(sleep, |inner| {
        let common = Common {
            kind: PathKind::Ib,
            service_id: 0,
            pkey: inner.connection.pkey,
            mtu: inner.connection.path_mtu,
        };
        (common, inner.av.as_ref().and_then(|av| av.data_lid))
    });
    let mut path = Path::new(&address::back(&lap.path(), common));
    // Without the lock of the identifier, as for a REQ.
    let alternate = address::alternate(&mut path, sleep).ok()?;
    let sender = Av {
        data_lid,
        ..address::sender(received, port, sleep).ok()?
    };
    let (alternate, sender) = (
        Arc::new(alternate, GFP_KERNEL).ok()?,
        Arc::new(sender, GFP_KERNEL).ok()?,
    );
    let with = With {
        transaction: header.transaction,
        received: Some((received, port)),
        ..With::default()
    };
    let told = id.with(sleep, |inner| {
        let told = inner.drive(id, Input::Lap, &with, sleep).ok().flatten();
        if told.is_some() {
            inner.connection.take_lap(&lap);
            // The peer may not be there any more by the path that there was.
            (inner.av, inner.alternate) = (Some(sender), Some(alternate));
        }
        told
    });
    told?;
    tell(id, &Event::lap(&path, room(Lap::PRIVATE_DATA, data)), sleep)
}

/// Puts the sender of a REP into the tables. `None` if it is a duplicate, or stale.
fn admit(
    id: &Arc<CmId>,
    rep: &Rep,
    received: &Received,
    port: &Arc<Port>,
    sleep: &MaySleep,
) -> Option<()> {
    let admission = id.with(sleep, |inner| {
        if !inner.connection.expects(Input::Rep) {
            let state = inner.connection.state() as u32;
            trace::icm_rep_unknown_err(rep.local_comm_id, rep.remote_comm_id, state);
            return None;
        }
        let remote = inner.connection.remote_of_rep(rep);
        let admission = tables::with(|tables| tables.admit(id.number(), &remote)).ok()?;
        if admission == Admission::New {
            inner.admitted = Some(remote);
            inner.connection.take_rep(rep);
        }
        Some(admission)
    });
    match admission? {
        Admission::New => Some(()),
        Admission::Duplicate(_) => {
            trace::icm_insert_failed_err(rep.remote_comm_id);
            None
        }
        Admission::Stale(owner) => {
            trace::icm_staleconn_err(rep.local_comm_id, rep.remote_comm_id);
            let header = header_of(received.bytes())?;
            let _ = receive::refuse_stale(port, received, header, rep, sleep);
            receive::disconnect_stale(owner, sleep);
            None
        }
    }
}

/// The event of a message, for C.
fn event_of<'a>(
    told: Told,
    modifier: u32,
    data: &'a Data,
    av: Option<&'a Av>,
) -> Option<Event<'a>> {
    Some(match told {
        Told::RepReceived => Event::rep(
            &reply(&Rep::read(data), modifier),
            room(Rep::PRIVATE_DATA, data),
        ),
        Told::RtuReceived => Event::rtu(room(Rtu::PRIVATE_DATA, data)),
        Told::DreqReceived => Event::dreq(room(Dreq::PRIVATE_DATA, data)),
        Told::DrepReceived => Event::drep(room(Drep::PRIVATE_DATA, data)),
        Told::MraReceived => Event::mra(
            Mra::read(data).service_timeout,
            room(Mra::PRIVATE_DATA, data),
        ),
        Told::RejReceived => {
            let rej = Rej::read(data);
            let info = room(Rej::ARI, data);
            Event::rej(
                rej.reason,
                info,
                rej.rejected_info_length,
                room(Rej::PRIVATE_DATA, data),
            )
        }
        Told::AprReceived => {
            let apr = Apr::read(data);
            let info = room(Apr::ADDITIONAL_INFORMATION, data);
            let length = apr.additional_information_length;
            Event::apr(apr.ar_status, info, length, room(Apr::PRIVATE_DATA, data))
        }
        Told::SidrRepReceived => {
            let rep = SidrRep::read(data);
            let resolved = Resolved {
                status: rep.status.into(),
                qkey: rep.q_key,
                qpn: rep.qpn,
                info: room(SidrRep::ADDITIONAL_INFORMATION, data),
                info_length: rep.additional_information_length,
                sgid: av.and_then(|av| av.vector.sgid()),
            };
            Event::sidr_rep(&resolved, room(SidrRep::PRIVATE_DATA, data))
        }
        _ => return None,
    })
}

fn reply(rep: &Rep, modifier: u32) -> Reply {
    let remote_qpn = match rep.local_qpn {
        0 => rep.local_ee_context_number,
        number => number,
    };
    Reply {
        remote_ca_guid: rep.local_ca_guid.to_be(),
        remote_qkey: rep.local_q_key,
        remote_qpn,
        starting_psn: rep.starting_psn,
        responder_resources: rep.initiator_depth,
        initiator_depth: rep.responder_resources,
        target_ack_delay: rep.target_ack_delay,
        failover_accepted: rep.failover_accepted,
        flow_control: rep.end_to_end_flow_control,
        rnr_retry_count: rep.rnr_retry_count,
        srq: rep.srq,
        ece: Ece {
            vendor_id: rep.vendor_id(),
            attr_mod: modifier,
        },
    }
}

/// The partition key of the datagram; 0 if the port does not have it any more.
fn bth_pkey(received: &Received, port: &Port, sleep: &MaySleep) -> u16 {
    let index = received.completion().pkey_index;
    let pkey = port.with(sleep, |agents| {
        rdma::core::address_vector::pkey_at(agents.usual.device(), port.number, index)
    });
    pkey.unwrap_or(0)
}

/// Tells the client of a listener that a peer asks.
fn offer_peer(
    id: &Arc<CmId>,
    attribute: Attribute,
    received: &Received,
    port: &Arc<Port>,
    offered: &Offer,
    sleep: &MaySleep,
) -> GivenUp {
    let (header, data) = (header_of(received.bytes())?, data_of(received.bytes())?);
    let av = id.with(sleep, |inner| inner.av.clone())?;
    let (sgid, bth_pkey) = (av.vector.sgid(), bth_pkey(received, port, sleep));
    let number = port.number as u8;
    if attribute == Attribute::SidrReq {
        let req = SidrReq::read(data);
        let asked = Asked {
            service_id: req.serviceid.to_be(),
            sgid,
            bth_pkey,
            port: number,
            pkey: req.partition_key,
        };
        let private = room(SidrReq::PRIVATE_DATA, data);
        let event = Event::sidr_req(&offered.listener, &asked, private);
        return offer(id, &event, sleep);
    }
    let req = Req::read(data);
    let request = Request {
        bth_pkey,
        port: number,
        primary_path: offered.primary.as_deref()?,
        alternate_path: offered.alternate.as_deref(),
        sgid,
        remote_ca_guid: req.local_ca_guid.to_be(),
        remote_qkey: req.local_q_key,
        remote_qpn: req.local_qpn,
        qp_type: match Transport::of_receiver(&req) {
            Transport::Rc => IB_QPT_RC,
            Transport::Uc => IB_QPT_UC,
            Transport::XrcTarget => IB_QPT_XRC_TGT,
            _ => 0,
        },
        starting_psn: req.starting_psn,
        responder_resources: req.initiator_depth,
        initiator_depth: req.responder_resources,
        local_cm_response_timeout: req.remote_cm_response_timeout,
        remote_cm_response_timeout: req.local_cm_response_timeout,
        flow_control: req.end_to_end_flow_control,
        retry_count: req.retry_count,
        rnr_retry_count: req.rnr_retry_count,
        srq: req.srq,
        ece: Ece {
            vendor_id: req.vendor_id,
            attr_mod: header.modifier,
        },
    };
    let event = Event::req(&offered.listener, &request, room(Req::PRIVATE_DATA, data));
    offer(id, &event, sleep)
}

/// A message was not answered, or could not be sent.
fn unanswered(id: &Arc<CmId>, serial: u64, status: u32, sleep: &MaySleep) -> GivenUp {
    let told = id.with(sleep, |inner| {
        // An older one has been answered, or is not waited for.
        let waits = inner.serial == serial && inner.pending.take().is_some();
        if !waits {
            return None;
        }
        let state = inner.connection.state();
        let failed = inner.drive(id, Input::SendFailed, &With::default(), sleep);
        let told = failed.ok().flatten();
        if told.is_some() {
            trace::icm_mad_send_err(state as u32, status);
        }
        told
    });
    let message = match told? {
        Told::ReqError => Unanswered::Req,
        Told::RepError => Unanswered::Rep,
        Told::DreqError => Unanswered::Dreq,
        Told::LapError => Unanswered::Lap,
        Told::SidrReqError => Unanswered::SidrReq,
        _ => return None,
    };
    let status = match status {
        0 => IB_WC_GENERAL_ERR,
        status => status,
    };
    tell(id, &Event::unanswered(message, status), sleep)
}

fn expired(id: &Arc<CmId>, remote: Option<Remote>, sleep: &MaySleep) -> GivenUp {
    let told = id.with(sleep, |inner| {
        let remote_qpn = inner.connection.remote_qpn;
        match remote.is_none_or(|remote| remote.qpn == remote_qpn) {
            true => inner
                .drive(id, Input::TimewaitExpired, &With::default(), sleep)
                .ok()?,
            false => None,
        }
    });
    told.and_then(|_| tell(id, &Event::timewait_exit(), sleep))
}

fn established(id: &Arc<CmId>, sleep: &MaySleep) -> GivenUp {
    let told = id.with(sleep, |inner| {
        let with = With::default();
        inner.settle(id, sleep);
        if !core::mem::take(&mut inner.is_settled) {
            return None;
        }
        inner.drive(id, Input::Established, &with, sleep).ok()?
    });
    id.note_established();
    told.and_then(|_| tell(id, &Event::user_established(), sleep))
}

fn migrated(id: &Arc<CmId>, sleep: &MaySleep) -> GivenUp {
    // It may have ended meanwhile.
    let _ = id.with(sleep, |inner| {
        inner.drive(id, Input::Migrate, &With::default(), sleep)
    });
    None
}
