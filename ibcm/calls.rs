// SPDX-License-Identifier: GPL-2.0

//! What a client asks for: listening, asking for a connection or a queue pair, answering, disconnecting.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::{
    connection::{self, Connection},
    field::{Data, Room, DATA_SIZE},
    messages::{self, Drep, Dreq, Rej, Rep, Req, Rtu, SidrRep, SidrReq},
    service::Wish,
    states::Input,
    time,
    transport::Transport,
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings::{IB_QPT_RC, IB_QPT_UC, IB_QPT_XRC_INI};
use rdma::{
    core::{
        address_vector::Sgid,
        cm::{
            id::{Client, IdBody},
            param::{RepParam, ReqParam, SidrRepParam, SidrReqParam},
        },
        connection::PrivateData,
        path::Path,
        Device,
    },
    MaySleep,
};

use crate::{
    address,
    id::{Av, CmId},
    port,
    send::{own_transaction, put, With},
    tables::{self, Listening},
};

/// An identifier of a client.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn create(device: &Device, client: &Client, sleep: &MaySleep) -> Result<Arc<CmId>> {
    let attached = port::attached(device, sleep);
    let number = tables::with(|tables| tables.take_number())?;
    let body = IdBody::new(device, client, number.to_be());
    let made = CmId::new(body, Connection::new(number), attached);
    tables::with(|tables| {
        match &made {
            Ok(id) => tables.publish(number, id),
            Err(_) => drop(tables.free_number(number)),
        }
        Ok(())
    })?;
    made
}

/// Listens for a service.
///
/// # Errors
///
/// `EINVAL` for a service that cannot be chosen, and unless the identifier is new; `EBUSY` if another one listens; `ENOMEM`.
pub(crate) fn listen(id: &Arc<CmId>, service_id: u64, sleep: &MaySleep) -> Result {
    let wish = Wish::new(u64::from_be(service_id)).ok_or(EINVAL)?;
    id.with(sleep, |inner| {
        if !inner.connection.expects(Input::Listen) {
            return Err(EINVAL);
        }
        let (service, _) = tables::with(|tables| tables.listen(id, wish, |_| false))?;
        inner.connection.service_id = service;
        id.body.set_service_id(service.to_be());
        inner.drive(id, Input::Listen, &With::default(), sleep)?;
        Ok(())
    })
}

/// A listener of a client that others with the same handler may share.
///
/// # Errors
///
/// `EINVAL` for a service that cannot be chosen, and if another one listens that is not shared; `ENOMEM`.
pub(crate) fn insert_listen(
    device: &Device,
    client: &Client,
    service_id: u64,
    sleep: &MaySleep,
) -> Result<Arc<CmId>> {
    let wish = Wish::new(u64::from_be(service_id)).ok_or(EINVAL)?;
    let id = create(device, client, sleep)?;
    let listening = id.with(sleep, |inner| {
        let (service, listening) = tables::with(|tables| {
            tables.listen(&id, wish, |other| other.body.is_shared_by(client))
        })?;
        if let Listening::Alone = listening {
            inner.connection.service_id = service;
            id.body.set_service_id(service.to_be());
            inner.drive(&id, Input::Listen, &With::default(), sleep)?;
        }
        Ok(listening)
    });
    match listening {
        Ok(Listening::Alone) => Ok(id),
        Ok(Listening::Shared(other)) => {
            crate::end::end(&id, false, sleep);
            Ok(other)
        }
        Err(error) => {
            crate::end::end(&id, false, sleep);
            Err(if error == EBUSY { EINVAL } else { error })
        }
    }
}

/// The address by a primary path.
fn primary(id: &CmId, path: &Path, sgid: Option<Sgid<'_>>, sleep: &MaySleep) -> Result<Av> {
    let port = match sgid {
        Some(sgid) => port::find(id.body.device(), sgid.port()),
        None => port::find_by_gid(path, sleep),
    };
    address::from_port(port.ok_or(EINVAL)?, &mut path.duplicate(), sgid, sleep)
}

fn check(data: &PrivateData<'_>, room: Room) -> Result {
    match data.bytes().len() <= room.size() {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

fn transport(kind: u32) -> Result<Transport> {
    match kind {
        IB_QPT_RC => Ok(Transport::Rc),
        IB_QPT_UC => Ok(Transport::Uc),
        IB_QPT_XRC_INI => Ok(Transport::XrcInitiator),
        _ => Err(EINVAL),
    }
}

/// A path of a REQ. LIDs of another subnet are unknown: permissive.
fn path_of_req(path: &Path, inbound: Option<&Path>, ack_delay: u8) -> messages::Path {
    let raw = path.raw();
    let is_subnet_local = raw.hop_limit <= 1;
    let (source, destination) = path.lids();
    let (local_lid, remote_lid) = match (is_subnet_local, inbound) {
        (true, _) => (source as u16, destination as u16),
        (false, Some(inbound)) => (inbound.lids().1 as u16, u16::MAX),
        (false, None) => (u16::MAX, u16::MAX),
    };
    messages::Path {
        local_lid,
        remote_lid,
        local_gid: ib_cm_protocol::field::Gid(path.sgid().0),
        remote_gid: ib_cm_protocol::field::Gid(path.dgid().0),
        flow_label: u32::from_be(raw.flow_label),
        packet_rate: raw.rate,
        traffic_class: raw.traffic_class,
        hop_limit: raw.hop_limit,
        sl: raw.sl,
        is_subnet_local,
        local_ack_timeout: time::ack_timeout(ack_delay, raw.packet_life_time),
    }
}

/// Asks for a connection.
///
/// # Errors
///
/// `EINVAL` for wrong parameters, and unless the identifier is new; `ENOENT` for an unknown partition; those of resolving the path and of
/// sending.
pub(crate) fn send_req(id: &Arc<CmId>, param: ReqParam<'_>, sleep: &MaySleep) -> Result {
    let path = param.primary_path().ok_or(EINVAL)?;
    let transport = transport(param.qp_type())?;
    check(&param.private_data(), Req::PRIVATE_DATA)?;
    let alternate = param.alternate_path();
    let differs =
        |other: &Path| other.raw().pkey != path.raw().pkey || other.raw().mtu != path.raw().mtu;
    if alternate.is_some_and(differs) {
        return Err(EINVAL);
    }
    if !id.with(sleep, |inner| inner.connection.expects(Input::SendReq)) {
        return Err(EINVAL);
    }
    let mut av = primary(id, path, param.sgid(), sleep)?;
    av.data_lid = param.outbound_path().map(|path| path.lids().1 as u16);
    let other = alternate
        .map(|path| address::alternate(&mut path.duplicate(), sleep))
        .transpose()?;
    let (av, other) = (
        Arc::new(av, GFP_KERNEL)?,
        other.map(|av| Arc::new(av, GFP_KERNEL)).transpose()?,
    );
    let ca_guid = u64::from_be_bytes(id.body.device().node_guid());
    let asked = connection::ReqParam {
        service_id: u64::from_be(param.service_id()),
        ca_guid,
        qpn: param.qp_num(),
        transport,
        starting_psn: param.starting_psn(),
        responder_resources: param.responder_resources(),
        initiator_depth: param.initiator_depth(),
        remote_cm_response_timeout: param.remote_cm_response_timeout(),
        local_cm_response_timeout: param.local_cm_response_timeout(),
        flow_control: param.flow_control() != 0,
        retry_count: param.retry_count(),
        rnr_retry_count: param.rnr_retry_count(),
        max_cm_retries: param.max_cm_retries(),
        srq: param.srq() != 0,
        vendor_id: param.ece().vendor_id,
        pkey: u16::from_be(path.raw().pkey),
        mtu: path.raw().mtu,
        packet_life_time: path.raw().packet_life_time,
        alternate_packet_life_time: alternate.map(|path| path.raw().packet_life_time),
    };
    let hi_tid = av.port.with(sleep, |agents| Ok(agents.usual.hi_tid()))?;
    id.with(sleep, |inner| {
        if !inner.connection.expects(Input::SendReq) {
            return Err(EINVAL);
        }
        inner.connection.ask(&asked);
        inner.connection.transaction = own_transaction(hi_tid, inner.connection.local_id);
        id.body.set_service_id(param.service_id());
        let mut req = inner.connection.req(&asked);
        let delay = av.port.ack_delay;
        req.set_primary(&path_of_req(path, param.inbound_path(), delay));
        if let Some(path) = alternate {
            req.set_alternate(&path_of_req(path, None, delay));
        }
        let mut data = [0; DATA_SIZE];
        req.write(&mut data);
        put(Req::PRIVATE_DATA, &mut data, param.private_data().bytes());
        inner.av = Some(av.clone());
        inner.alternate = other.clone();
        let with = With {
            prepared: Some((&data, param.ece().attr_mod)),
            ..With::default()
        };
        inner.drive(id, Input::SendReq, &with, sleep).map(drop)
    })
}

/// Accepts a peer.
///
/// # Errors
///
/// `EINVAL` for too much private data and if there is no peer; those of sending.
pub(crate) fn send_rep(id: &Arc<CmId>, param: RepParam<'_>, sleep: &MaySleep) -> Result {
    check(&param.private_data(), Rep::PRIVATE_DATA)?;
    id.with(sleep, |inner| {
        let av = inner.av.clone();
        let accepted = connection::RepParam {
            ca_guid: u64::from_be_bytes(id.body.device().node_guid()),
            ack_delay: av.map_or(0, |av| av.port.ack_delay),
            qpn: param.qp_num(),
            starting_psn: param.starting_psn(),
            responder_resources: param.responder_resources(),
            initiator_depth: param.initiator_depth(),
            failover_accepted: param.failover_accepted(),
            flow_control: param.flow_control() != 0,
            rnr_retry_count: param.rnr_retry_count(),
            srq: param.srq() != 0,
            vendor_id: param.ece().vendor_id,
        };
        let mut data = [0; DATA_SIZE];
        inner.connection.rep(&accepted).write(&mut data);
        put(Rep::PRIVATE_DATA, &mut data, param.private_data().bytes());
        let with = With {
            prepared: Some((&data, param.ece().attr_mod)),
            ..With::default()
        };
        inner.drive(id, Input::SendRep, &with, sleep)?;
        inner.connection.accept(&accepted);
        Ok(())
    })
}

/// Sends a message of which the client has no more to say than private data.
fn send_plain(
    id: &Arc<CmId>,
    input: Input,
    room: Room,
    data: &PrivateData<'_>,
    sleep: &MaySleep,
) -> Result {
    check(data, room)?;
    let with = With {
        private_data: data.bytes(),
        ..With::default()
    };
    id.with(sleep, |inner| {
        inner.drive(id, input, &with, sleep).map(drop)
    })
}

/// Says that the connection is there.
pub(crate) fn send_rtu(id: &Arc<CmId>, data: &PrivateData<'_>, sleep: &MaySleep) -> Result {
    send_plain(id, Input::SendRtu, Rtu::PRIVATE_DATA, data, sleep)
}

/// Disconnects.
pub(crate) fn send_dreq(id: &Arc<CmId>, data: &PrivateData<'_>, sleep: &MaySleep) -> Result {
    send_plain(id, Input::SendDreq, Dreq::PRIVATE_DATA, data, sleep)
}

/// Agrees to disconnect.
pub(crate) fn send_drep(id: &Arc<CmId>, data: &PrivateData<'_>, sleep: &MaySleep) -> Result {
    send_plain(id, Input::SendDrep, Drep::PRIVATE_DATA, data, sleep)
}

/// Takes longer to answer.
pub(crate) fn prepare_mra(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    id.with(sleep, |inner| {
        inner
            .drive(id, Input::PrepareMra, &With::default(), sleep)
            .map(drop)
    })
}

/// Refuses a peer.
///
/// # Errors
///
/// `EINVAL` for too much data, and if there is no peer; those of sending.
pub(crate) fn send_rej(
    id: &Arc<CmId>,
    reason: u32,
    info: &PrivateData<'_>,
    data: &PrivateData<'_>,
    sleep: &MaySleep,
) -> Result {
    check(data, Rej::PRIVATE_DATA)?;
    check(info, Rej::ARI)?;
    let with = With {
        // The message has 16 bits for it.
        refusal: Some((reason as u16, info.bytes())),
        private_data: data.bytes(),
        ..With::default()
    };
    id.with(sleep, |inner| {
        inner.drive(id, Input::SendRej, &with, sleep).map(drop)
    })
}

/// Asks for the queue pair of a service.
///
/// # Errors
///
/// As for [`send_req`].
pub(crate) fn send_sidr_req(id: &Arc<CmId>, param: SidrReqParam<'_>, sleep: &MaySleep) -> Result {
    let path = param.path().ok_or(EINVAL)?;
    check(&param.private_data(), SidrReq::PRIVATE_DATA)?;
    let av = Arc::new(primary(id, path, param.sgid(), sleep)?, GFP_KERNEL)?;
    id.with(sleep, |inner| {
        if !inner.connection.expects(Input::SendSidrReq) {
            return Err(EINVAL);
        }
        inner.connection.service_id = u64::from_be(param.service_id());
        inner.connection.timeout_ms = u32::try_from(param.timeout_ms()).unwrap_or(u32::MAX);
        inner.connection.max_cm_retries = param.max_cm_retries();
        id.body.set_service_id(param.service_id());
        let mut data = [0; DATA_SIZE];
        let req = SidrReq {
            requestid: inner.connection.local_id,
            partition_key: u16::from_be(path.raw().pkey),
            serviceid: inner.connection.service_id,
        };
        req.write(&mut data);
        put(
            SidrReq::PRIVATE_DATA,
            &mut data,
            param.private_data().bytes(),
        );
        inner.av = Some(av.clone());
        let with = With {
            prepared: Some((&data, 0)),
            ..With::default()
        };
        inner.drive(id, Input::SendSidrReq, &with, sleep).map(drop)
    })
}

/// Answers which queue pair a service has.
///
/// # Errors
///
/// `EINVAL` for too much data, and if nobody asks; those of sending.
pub(crate) fn send_sidr_rep(id: &Arc<CmId>, param: SidrRepParam<'_>, sleep: &MaySleep) -> Result {
    check(&param.info(), SidrRep::ADDITIONAL_INFORMATION)?;
    check(&param.private_data(), SidrRep::PRIVATE_DATA)?;
    id.with(sleep, |inner| {
        let vendor = param.ece().vendor_id;
        let rep = SidrRep {
            requestid: inner.connection.remote_id,
            status: param.status() as u8,
            additional_information_length: param.info().bytes().len() as u8,
            vendor_id_h: (vendor >> 8) as u16,
            qpn: param.qp_num(),
            vendor_id_l: vendor as u8,
            serviceid: inner.connection.service_id,
            q_key: param.qkey(),
        };
        let mut data: Data = [0; DATA_SIZE];
        rep.write(&mut data);
        put(
            SidrRep::ADDITIONAL_INFORMATION,
            &mut data,
            param.info().bytes(),
        );
        put(
            SidrRep::PRIVATE_DATA,
            &mut data,
            param.private_data().bytes(),
        );
        let with = With {
            prepared: Some((&data, param.ece().attr_mod)),
            ..With::default()
        };
        inner.drive(id, Input::SendSidrRep, &with, sleep).map(drop)
    })
}
