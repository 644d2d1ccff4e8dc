// SPDX-License-Identifier: GPL-2.0

//! Messages that an identifier sends, and what else the table of states wants done.
//!
//! C headers: `include/rdma/ib_mad.h`, `include/rdma/ib_cm.h`.

use ib_cm_protocol::{
    connection::{Connection, Effects, Given, Stop},
    counters::Group,
    field::{Data, Room, DATA_SIZE},
    messages::{self, Attribute, Drep, Rtu, CLASS_VERSION, MGMT_CLASS},
    reject::Reason,
    remote::{Remote, SidrKey},
    states::{Event, Input, Refusal, State},
    time,
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{IB_MGMT_BASE_VERSION, IB_MGMT_METHOD_SEND},
    error::EISCONN,
};
use rdma::{
    client::mad::{Layout, Pending, Received, HEADER},
    core::cm::trace,
    MaySleep,
};

use crate::{
    address::sender,
    id::{Av, CmId, Inner, Message, Ticket},
    port::Port,
    tables, timewait,
};

/// The queue pair of messages, where they are not redirected.
const QP1: u32 = 1;

/// The header of a message.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) attribute: Attribute,
    pub(crate) transaction: u64,
    /// The attribute modifier: options of the vendor.
    pub(crate) modifier: u32,
}

/// The data of a message in its bytes.
pub(crate) fn data_of(bytes: &[u8]) -> Option<&Data> {
    bytes.get(HEADER..)?.first_chunk()
}

/// The attribute and the transaction ID of a message, and the options of the vendor.
pub(crate) fn header_of(bytes: &[u8]) -> Option<Header> {
    let number = |at: usize| bytes.get(at..)?.first_chunk::<2>().copied();
    Some(Header {
        attribute: Attribute::from_id(u16::from_be_bytes(number(16)?))?,
        transaction: u64::from_be_bytes(*bytes.get(8..)?.first_chunk()?),
        modifier: u32::from_be_bytes(*bytes.get(20..)?.first_chunk()?),
    })
}

impl Header {
    /// The header of the MAD, by words of eight bytes.
    fn words(&self) -> [[u8; 8]; HEADER / 8] {
        let base_version = IB_MGMT_BASE_VERSION as u8;
        let method = IB_MGMT_METHOD_SEND as u8;
        let [a, b] = self.attribute.id().to_be_bytes();
        let [c, d, e, f] = self.modifier.to_be_bytes();
        [
            [base_version, MGMT_CLASS, CLASS_VERSION, method, 0, 0, 0, 0],
            self.transaction.to_be_bytes(),
            [a, b, 0, 0, c, d, e, f],
        ]
    }
}

/// Fills in a new message: its header, and its data, which are zeros until `write` has written them.
fn fill(message: &mut Message, header: Header, write: impl FnOnce(&mut Data)) {
    // The layout has room for both.
    let Some((head, data)) = message.body().split_first_chunk_mut::<HEADER>() else {
        return;
    };
    for (to, from) in head.iter_mut().zip(header.words().as_flattened()) {
        *to = *from;
    }
    if let Some(data) = data.first_chunk_mut() {
        write(data);
    }
}

fn layout(remote_qpn: u32, pkey_index: u16) -> Layout {
    Layout {
        remote_qpn,
        pkey_index,
        is_rmpp: false,
        headers: HEADER,
        data: DATA_SIZE,
        base_version: IB_MGMT_BASE_VERSION as u8,
    }
}

/// Puts a client's bytes into their room.
pub(crate) fn put(room: Room, data: &mut Data, bytes: &[u8]) {
    // Lengths were checked when the client called.
    let _ = room.set(data, bytes);
}

/// Answers a message to where it came from, without an identifier, or for a duplicate.
pub(crate) fn answer(
    port: &Arc<Port>,
    received: &Received,
    header: Header,
    is_resent: bool,
    data: &Data,
    sleep: &MaySleep,
) -> Result {
    let to = sender(received, port, sleep)?;
    answer_to(&to, header, is_resent, data, sleep)
}

/// As [`answer`], to an address that is known.
pub(crate) fn answer_to(
    to: &Av,
    header: Header,
    is_resent: bool,
    data: &Data,
    sleep: &MaySleep,
) -> Result {
    to.port.with(sleep, |agents| {
        let address = agents.usual.address_of(&to.vector, sleep)?;
        let layout = layout(QP1, to.pkey_index);
        let mut message = Message::new(address, &layout, sleep)?;
        fill(&mut message, header, |to| *to = *data);
        let ticket = Ticket {
            waits: None,
            attribute: header.attribute,
            is_resent,
        };
        message.post_pending(ticket, sleep).map(drop)
    })
}

/// The call or message that the table of states walks for.
pub(crate) struct Doing<'a> {
    pub(crate) id: &'a Arc<CmId>,
    pub(crate) sleep: &'a MaySleep,
    /// What a call sends: it has been made already.
    pub(crate) prepared: Option<(&'a Data, u32)>,
    /// The reason, `enum ib_cm_rej_reason`, and the information of a REJ.
    pub(crate) refusal: (u16, &'a [u8]),
    /// Private data of the client.
    pub(crate) private_data: &'a [u8],
    /// The message that has come, and where.
    pub(crate) received: Option<(&'a Received, &'a Arc<Port>)>,
    /// The time that an MRA asks for.
    pub(crate) service_timeout: u8,
    pub(crate) parts: Parts<'a>,
}

/// What of the identifier changes beside the connection.
pub(crate) struct Parts<'a> {
    pub(crate) av: &'a mut Option<Arc<Av>>,
    pub(crate) alternate: &'a mut Option<Arc<Av>>,
    pub(crate) pending: &'a mut Option<Arc<Pending<Ticket>>>,
    pub(crate) serial: &'a mut u64,
    pub(crate) admitted: &'a mut Option<Remote>,
    pub(crate) sidr: &'a mut Option<SidrKey>,
}

/// What an input comes with, beside the connection.
#[derive(Default)]
pub(crate) struct With<'a> {
    pub(crate) prepared: Option<(&'a Data, u32)>,
    pub(crate) refusal: Option<(u16, &'a [u8])>,
    pub(crate) private_data: &'a [u8],
    pub(crate) transaction: u64,
    pub(crate) received: Option<(&'a Received, &'a Arc<Port>)>,
    pub(crate) service_timeout: u8,
}

impl Inner {
    /// The connection is there from when the client says so, before anything else happens.
    pub(crate) fn settle(&mut self, id: &Arc<CmId>, sleep: &MaySleep) {
        let with = With::default();
        self.is_settled |= self.drive(id, Input::Establish, &with, sleep).is_ok();
    }

    /// Does what the table of states says, and tells the event for the client.
    ///
    /// # Errors
    ///
    /// `EINVAL` and `EISCONN` for a call that the state does not allow; those of sending. `None` where nothing is to be told.
    pub(crate) fn drive(
        &mut self,
        id: &Arc<CmId>,
        input: Input,
        with: &With<'_>,
        sleep: &MaySleep,
    ) -> Result<Option<Event>> {
        if input != Input::Establish && id.notes_established() {
            self.settle(id, sleep);
        }
        let given = Given {
            private_data: with.private_data,
            transaction: with.transaction,
        };
        let mut doing = Doing {
            id,
            sleep,
            prepared: with.prepared,
            refusal: with
                .refusal
                .unwrap_or((Reason::ConsumerDefined as u16, &[])),
            private_data: with.private_data,
            received: with.received,
            service_timeout: with.service_timeout,
            parts: Parts {
                av: &mut self.av,
                alternate: &mut self.alternate,
                pending: &mut self.pending,
                serial: &mut self.serial,
                admitted: &mut self.admitted,
                sidr: &mut self.sidr,
            },
        };
        let refused = match self.connection.drive(input, given, &mut doing) {
            Ok(event) => return Ok(event),
            Err(Stop::Unsent(error)) => return Err(error),
            Err(Stop::Ignored) => Ok(None),
            Err(Stop::Refused(Refusal::IsConnected)) => Err(EISCONN),
            Err(Stop::Refused(Refusal::Invalid)) => Err(EINVAL),
        };
        unexpected(id, input, self.connection.state(), with.refusal);
        refused
    }
}

/// The state does not have a call or message.
fn unexpected(id: &CmId, input: Input, state: State, refusal: Option<(u16, &[u8])>) {
    let (id, state) = (&id.body, state as u32);
    match input {
        Input::SendRep => trace::icm_send_rep_err(id.local_id(), state),
        Input::SendRtu => trace::icm_send_cm_rtu_err(id, state),
        Input::SendDreq => trace::icm_dreq_skipped(id, state),
        Input::SendDrep => trace::icm_send_drep_err(id, state),
        Input::SendRej => {
            let reason = refusal.map_or(0, |(reason, _)| reason);
            trace::icm_send_rej(id, state, reason.into());
            trace::icm_send_unknown_rej_err(id, state);
        }
        Input::PrepareMra => trace::icm_prepare_mra_unknown_err(id, state),
        Input::Rej | Input::RejStale => trace::icm_rej_unknown_err(id, state),
        Input::MraReq | Input::MraRep | Input::MraOther => trace::icm_mra_unknown_err(id, state),
        Input::Dreq => trace::icm_dreq_unknown_err(id, state),
        _ => {}
    }
}

/// Tells that a message is sent. The state is the one before, but for a DREP.
fn sending(id: &CmId, attribute: Attribute, state: State, reason: u16) {
    let (id, state) = (&id.body, state as u32);
    match attribute {
        Attribute::Req => trace::icm_send_req(id, state),
        Attribute::Rep => trace::icm_send_rep(id, state),
        Attribute::Rtu => trace::icm_send_rtu(id, state),
        Attribute::Rej => trace::icm_send_rej(id, state, reason.into()),
        Attribute::Dreq => trace::icm_send_dreq(id, state),
        Attribute::Drep => trace::icm_send_drep(id, State::Timewait as u32),
        Attribute::SidrReq => trace::icm_send_sidr_req(id, state),
        Attribute::SidrRep => trace::icm_send_sidr_rep(id, state),
        Attribute::Mra | Attribute::Lap | Attribute::Apr => {}
    }
}

/// Tells that a duplicate is answered.
fn resending(id: &CmId, attribute: Attribute, state: State) {
    let (id, raw) = (&id.body, state as u32);
    match (attribute, state) {
        (Attribute::Drep, _) => {}
        (Attribute::Rtu, _) | (Attribute::Mra, State::MraRepSent) => {
            trace::icm_send_dup_rep(id, raw)
        }
        _ => trace::icm_send_dup_req(id, raw),
    }
}

/// The upper half of the transaction IDs of requests is the agent's.
pub(crate) fn own_transaction(hi_tid: u32, local_id: u32) -> u64 {
    u64::from(hi_tid) << 32 | u64::from(local_id)
}

impl Doing<'_> {
    /// Writes the data of a message, which are zeros.
    fn write(&self, connection: &Connection, attribute: Attribute, data: &mut Data) {
        if let Some((prepared, _)) = self.prepared {
            *data = *prepared;
            return;
        }
        let room = match attribute {
            Attribute::Rtu => {
                let ids = (connection.local_id, connection.remote_id);
                Rtu {
                    local_comm_id: ids.0,
                    remote_comm_id: ids.1,
                }
                .write(data);
                Rtu::PRIVATE_DATA
            }
            Attribute::Dreq => {
                connection.dreq().write(data);
                ib_cm_protocol::messages::Dreq::PRIVATE_DATA
            }
            Attribute::Drep => {
                let ids = (connection.local_id, connection.remote_id);
                Drep {
                    local_comm_id: ids.0,
                    remote_comm_id: ids.1,
                }
                .write(data);
                Drep::PRIVATE_DATA
            }
            Attribute::Mra => {
                connection.mra().write(data);
                ib_cm_protocol::messages::Mra::PRIVATE_DATA
            }
            Attribute::SidrRep => {
                let rep = ib_cm_protocol::messages::SidrRep {
                    requestid: connection.remote_id,
                    status: ib_cm_protocol::messages::SidrStatus::Reject as u8,
                    serviceid: connection.service_id,
                    ..Default::default()
                };
                rep.write(data);
                ib_cm_protocol::messages::SidrRep::PRIVATE_DATA
            }
            _ => {
                let (reason, info) = self.refusal;
                let rej = connection.rej(Reason::ConsumerDefined, info.len() as u8);
                // A client may have reasons that the specification has not.
                messages::Rej { reason, ..rej }.write(data);
                put(ib_cm_protocol::messages::Rej::ARI, data, info);
                ib_cm_protocol::messages::Rej::PRIVATE_DATA
            }
        };
        put(room, data, self.private_data);
    }

    /// The options of the vendor in a message.
    fn modifier(&self) -> u32 {
        self.prepared.map_or(0, |(_, modifier)| modifier)
    }

    fn post(&mut self, connection: &Connection, attribute: Attribute, waits: bool) -> Result {
        let av = self.parts.av.clone().ok_or(EINVAL)?;
        let sleep = self.sleep;
        av.port.with(sleep, |agents| {
            let agent = match attribute {
                Attribute::Rep => &agents.replies,
                _ => &agents.usual,
            };
            let address = agent.address_of(&av.vector, sleep)?;
            let layout = layout(self.id.body.remote_cm_qpn(), av.pkey_index);
            let mut message = Message::new(address, &layout, sleep)?;
            let transaction = match attribute {
                Attribute::Req | Attribute::Dreq | Attribute::SidrReq => {
                    own_transaction(agents.usual.hi_tid(), connection.local_id)
                }
                _ => connection.transaction,
            };
            let header = Header {
                attribute,
                transaction,
                modifier: self.modifier(),
            };
            fill(&mut message, header, |data| {
                self.write(connection, attribute, data)
            });
            let serial = self.parts.serial.wrapping_add(1);
            let ticket = Ticket {
                waits: waits.then(|| (self.id.clone(), serial)),
                attribute,
                is_resent: false,
            };
            sending(self.id, attribute, connection.state(), self.refusal.0);
            if !waits {
                return message.post_pending(ticket, sleep).map(drop);
            }
            message.set_patience(connection.timeout_ms, connection.max_cm_retries.into());
            let pending = message.post_pending(ticket, sleep)?;
            *self.parts.serial = serial;
            *self.parts.pending = Some(pending);
            Ok(())
        })
    }

    /// Takes the peer out of the tables.
    fn take_admitted(&mut self) -> Option<Remote> {
        let remote = self.parts.admitted.take()?;
        tables::change(|tables| tables.forget(self.id.number(), &remote));
        Some(remote)
    }
}

impl Effects for Doing<'_> {
    type Error = Error;

    fn request(&mut self, connection: &Connection, message: Attribute) -> Result {
        self.post(connection, message, true)
    }

    fn send(&mut self, connection: &Connection, message: Attribute) -> Result {
        self.post(connection, message, false)
    }

    fn resend(&mut self, connection: &Connection, message: Attribute) {
        let Some((received, port)) = self.received else {
            return;
        };
        let kept = Doing {
            private_data: connection.kept(),
            refusal: (Reason::StaleConn as u16, &[]),
            prepared: None,
            id: self.id,
            sleep: self.sleep,
            received: None,
            service_timeout: 0,
            parts: Parts {
                av: self.parts.av,
                alternate: self.parts.alternate,
                pending: self.parts.pending,
                serial: self.parts.serial,
                admitted: self.parts.admitted,
                sidr: self.parts.sidr,
            },
        };
        let mut data = [0; DATA_SIZE];
        kept.write(connection, message, &mut data);
        let header = Header {
            attribute: message,
            transaction: connection.transaction,
            modifier: kept.modifier(),
        };
        resending(self.id, message, connection.state());
        // If it cannot be sent, another duplicate will come.
        let _ = answer(port, received, header, true, &data, self.sleep);
    }

    fn cancel(&mut self) {
        if let Some(pending) = self.parts.pending.take() {
            pending.cancel();
        }
    }

    fn extend(&mut self, connection: &Connection) -> bool {
        let milliseconds = time::after_mra(self.service_timeout, connection.ack_timeout);
        let pending = self.parts.pending.as_ref();
        pending.is_some_and(|pending| pending.extend(milliseconds))
    }

    fn forget(&mut self) {
        self.take_admitted();
    }

    fn timewait(&mut self, milliseconds: u32) {
        // Who was refused as stale has no peer in the tables, and waits, too.
        let remote = self.take_admitted();
        timewait::begin(self.id.number(), remote, milliseconds);
    }

    fn unlisten(&mut self) {}

    fn forget_sidr(&mut self) {
        if let Some(key) = self.parts.sidr.take() {
            tables::change(|tables| tables.forget_sidr(&key));
        }
    }

    fn switch_path(&mut self) {
        *self.parts.av = self.parts.alternate.clone();
    }

    fn duplicate(&mut self, message: Attribute) {
        if let Some((_, port)) = self.received {
            port.count(Group::Duplicates, message, 1);
        }
    }
}
