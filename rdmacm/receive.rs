// SPDX-License-Identifier: GPL-2.0

//! What `ib_cm` and `iw_cm` tell: requests of peers, for which a listener gets a new identifier, and what becomes of connections.
//!
//! C headers: `include/rdma/ib_cm.h`, `include/rdma/iw_cm.h`.

use cm_rules::{
    address::{Address, Family, Ib},
    event::Event as Kind,
    listener::{may_be_routed, Place},
    lower::{IbCm as IbTold, IwCm as IwTold, Prepare, QpOwner, Told},
    port_space::port_of,
    private_data::{client_offset, Header, Parsed},
    state::{look_up, Input, State},
};
use kernel::{
    ffi::c_int,
    prelude::*,
    sync::{aref::ARef, rcu, Arc},
};
use kernel_ext::{
    bindings,
    error::{ECONNABORTED, EHOSTUNREACH},
    net::{device::NetDevice, ns::NetNamespace},
};
use rdma::{
    core::{
        cma::{
            device::{net_device, routes4, routes6},
            event::{Connection, Datagram, Event},
            handler::{offer, tell},
            id::{Owner, Records},
            trace,
        },
        iw::address::SockAddr,
        path::Path,
    },
    Gid, MaySleep,
};
use rdma_cma::{
    ib::{self, IbCm},
    iw::{self, IwCm},
    lower::Lower,
};

use crate::{
    address::{parse, to_raw},
    attach::{self, INFINIBAND},
    bind::translate,
    connect::{establish, take_qkey},
    end::end_handling,
    id::{CmId, New},
    ports::{find_listener, Arrival},
    qp, tables,
};

/// Takes the connection of `ib_cm` out of an identifier that ends, for `ib_cm` to destroy.
fn take_ib(id: &CmId, sleep: &MaySleep) -> Option<IbCm<CmId>> {
    match id.lower.take(sleep)? {
        Lower::Ib(ib) => Some(ib),
        other => {
            drop(other);
            None
        }
    }
}

/// As [`take_ib`], of `iw_cm`.
fn take_iw(id: &CmId, sleep: &MaySleep) -> Option<IwCm<CmId>> {
    match id.lower.take(sleep)? {
        Lower::Iw(iw) => Some(iw),
        other => {
            drop(other);
            None
        }
    }
}

/// What an event of `ib_cm` is for the rules.
fn ib_told(event: &ib::Event<'_>) -> Option<IbTold> {
    Some(match event.kind() {
        bindings::IB_CM_REQ_ERROR | bindings::IB_CM_REP_ERROR => IbTold::NoAnswer,
        bindings::IB_CM_REP_RECEIVED => IbTold::Rep,
        bindings::IB_CM_RTU_RECEIVED | bindings::IB_CM_USER_ESTABLISHED => IbTold::Rtu,
        bindings::IB_CM_DREQ_ERROR => IbTold::DreqError,
        bindings::IB_CM_DREQ_RECEIVED | bindings::IB_CM_DREP_RECEIVED => IbTold::Dreq,
        bindings::IB_CM_TIMEWAIT_EXIT => IbTold::TimewaitExit,
        bindings::IB_CM_MRA_RECEIVED => IbTold::Mra,
        bindings::IB_CM_REJ_RECEIVED => IbTold::Rej(event.refusal()? as u16),
        bindings::IB_CM_SIDR_REQ_ERROR => IbTold::SidrNoAnswer,
        bindings::IB_CM_SIDR_REP_RECEIVED => IbTold::SidrRep(event.resolved()?.status as u8),
        other => {
            pr_err!("unexpected event of ib_cm: {other}\n");
            return None;
        }
    })
}

/// What is told to the client, after what has to be done first.
fn prepare(id: &CmId, told: Told, event: &ib::Event<'_>, sleep: &MaySleep) -> (Kind, c_int) {
    match told.prepare {
        Prepare::Nothing => {}
        Prepare::Establish => {
            if let Err(error) = establish(id, sleep) {
                return (Kind::ConnectError, error.to_errno());
            }
        }
        Prepare::QpError => {
            let _ = qp::to_error(id, sleep);
        }
        Prepare::KeepQKey => {
            let qkey = event.resolved().map_or(0, |resolved| resolved.qkey);
            if let Err(error) = take_qkey(id, qkey) {
                return (Kind::AddrError, error.to_errno());
            }
        }
    }
    (told.event, told.status)
}

/// Where datagrams are sent to, as the peer has answered.
fn resolved<'a>(id: &CmId, event: &ib::Event<'a>, is_good: bool, sleep: &MaySleep) -> Datagram<'a> {
    let mut datagram = Datagram {
        private_data: event.private_data(),
        ..Datagram::default()
    };
    let (Some(resolved), Some(bound), true) = (event.resolved(), id.bound(), is_good) else {
        return datagram;
    };
    let path = id.body.with_records(|records| {
        records.and_then(|records| Some(records.paths.first()?.duplicate()))
    });
    if let Some(mut path) = path {
        let vector = resolved.vector(&bound.device, bound.port, &mut path, sleep);
        datagram.vector = vector.ok();
    }
    datagram.qp_num = resolved.qpn;
    datagram.qkey = resolved.qkey;
    datagram
}

impl ib::Receiver for CmId {
    fn event(
        this: &Arc<Self>,
        event: &ib::Event<'_>,
        sleep: &MaySleep,
    ) -> Option<(IbCm<Self>, c_int)> {
        let handling = this.body.handling(sleep);
        let owner = match this.body.has_qp() {
            true => QpOwner::Identifier,
            false => QpOwner::Client,
        };
        let rule = ib_told(event)?;
        let told = rule.told(owner)?;
        look_up(this.state(), told.input)?;
        if rule == IbTold::Rep && this.body.qp_type() != bindings::IB_QPT_UD {
            prepare_mra(this, sleep);
        }
        let (kind, status) = prepare(this, told, event, sleep);
        this.happen(told.input)?;
        let number = kind as u32;
        let mut told = match rule {
            IbTold::Rep => Event::of_connection(number, status, &event.reply().unwrap_or_default()),
            IbTold::Rej(_) => {
                let refused = Connection {
                    private_data: event.private_data(),
                    ..Connection::default()
                };
                Event::of_connection(number, status, &refused)
            }
            IbTold::SidrRep(_) => {
                let is_good = kind == Kind::Established;
                Event::of_datagram(number, status, resolved(this, event, is_good, sleep))
            }
            _ => Event::plain(number, status),
        };
        let given_up = tell(this, &mut told, &handling, sleep)?;
        let lower = take_ib(this, sleep);
        end_handling(this, handling, sleep);
        Some((lower?, given_up.code))
    }

    fn request(
        event: &ib::Event<'_>,
        offered: ib::Offered<'_, Self>,
        sleep: &MaySleep,
    ) -> Result<(), (c_int, Option<IbCm<Self>>)> {
        let code = |error: Error| (error.to_errno(), None);
        let request = event.request().ok_or(code(EINVAL))?;
        let (listener, found) = find(event, &request, sleep).map_err(code)?;
        trace::cm_req_handler(&listener.body, event.kind());
        let wanted = listener.body.qp_type();
        let own = request.qp_type.unwrap_or(bindings::IB_QPT_UD);
        if wanted != 0 && wanted != own {
            return Err(code(EINVAL));
        }
        let listening = listener.body.handling(sleep);
        if look_up(listener.state(), Input::Request).is_none() {
            return Err(code(ECONNABORTED));
        }
        let peer = new_peer(&listener, &request, &found, own, sleep).map_err(code)?;
        let handling = peer.body.handling_inside(&listening, sleep);
        let bound = listener.device().map_err(code)?;
        let attached = attach::by_request(&peer, &bound.dev, request.device(), request.port, sleep);
        if let Err(error) = attached {
            end_handling(&peer, handling, sleep);
            return Err(code(error));
        }
        drop(peer.lower.put(Lower::Ib(offered.adopt(&peer)), sleep));
        let family = listener
            .ends()
            .0
            .map_or(Family::Ip4, |address| address.family());
        let offset = usize::from(client_offset(family));
        let number = Kind::ConnectRequest as u32;
        let mut told = match event.asked(offset) {
            Some(asked) => Event::of_connection(number, 0, &asked),
            None => Event::of_datagram(
                number,
                0,
                Datagram {
                    private_data: event.private_data().get(offset..).unwrap_or(&[]),
                    ..Datagram::default()
                },
            ),
        };
        if let Some(given_up) = offer(&peer, &mut told, &handling, sleep) {
            let lower = take_ib(&peer, sleep);
            drop(listening);
            end_handling(&peer, handling, sleep);
            return Err((given_up.code, lower));
        }
        if peer.state() == State::Connect && own != bindings::IB_QPT_UD {
            prepare_mra(&peer, sleep);
        }
        drop(handling);
        Ok(())
    }
}

/// Lets `ib_cm` tell the peer that the client takes its time.
fn prepare_mra(id: &CmId, sleep: &MaySleep) {
    trace::cm_prepare_mra(&id.body);
    id.lower.with(sleep, |lower| {
        if let Some(Lower::Ib(ib)) = lower {
            ib.prepare_mra(sleep);
        }
    });
}

/// What is known of a request.
struct Found {
    header: Parsed,
    ndev: Option<ARef<NetDevice>>,
}

/// The listener that a request is for.
fn find(
    event: &ib::Event<'_>,
    request: &ib::Request<'_>,
    sleep: &MaySleep,
) -> Result<(Arc<CmId>, Found)> {
    let header = Header::parse(event.private_data()).map_err(crate::address::error)?;
    let service_id = u64::from_be(request.service_id);
    if request.pkey != request.bth_pkey {
        kernel::pr_warn_once!("a request of another partition than its datagram\n");
    }
    let mut ndev = None;
    let mut namespace = NetNamespace::init().cookie();
    if let Parsed::Ip(header) = &header {
        let ends = header.ends(port_of(service_id));
        let found = match request.device().is_roce(request.port) {
            true => request.net_device(),
            false => {
                let gid = request.paths.map(|(path, _)| path.sgid());
                let local = to_raw(&ends.local);
                net_device(request.device(), request.port, request.pkey, gid, &local)
            }
        };
        let found = found.ok_or(ENODEV)?;
        // A net device does not move to another namespace between these.
        let guard = rcu::read_lock();
        let is_right = found.is_up() && has_come_by(&found, &ends.local, &ends.remote);
        let cookie = found.with_namespace(|net| net.cookie());
        drop(guard);
        namespace = cookie.filter(|_| is_right).ok_or(EHOSTUNREACH)?;
        ndev = Some(found);
    }
    let arrival = Arrival {
        namespace,
        service_id,
        header: &header,
        place: Place {
            port_num: request.port,
            net_device: ndev.as_ref().map_or(0, |ndev| ndev.index()),
        },
    };
    let tables = tables::lock(sleep);
    let is_there = |id: &CmId| {
        let bound = id.bound();
        bound.is_some_and(|bound| request.is_for(&bound.device))
    };
    let listener = find_listener(&tables, &arrival, is_there).ok_or(EINVAL)?;
    drop(tables);
    Ok((listener, Found { header, ndev }))
}

/// Whether a request may have come by a net device.
fn has_come_by(ndev: &NetDevice, local: &Address, remote: &Address) -> bool {
    may_be_routed(local, remote)
        && match (local, remote) {
            (Address::Ip4(local), Address::Ip4(remote)) => routes4(ndev, remote.addr, local.addr),
            (Address::Ip6(local), Address::Ip6(remote)) => routes6(ndev, remote.addr, local.addr),
            _ => false,
        }
}

/// The addresses of a request to a listener of `AF_IB`.
fn ib_ends(listener: &Ib, path: Option<&Path>) -> (Address, Address) {
    let none = Ib {
        addr: [0; 16],
        pkey: 0,
        flow_info: 0,
        sid: 0,
        sid_mask: 0,
        scope_id: 0,
    };
    let Some(path) = path else {
        let local = Ib {
            sid_mask: u64::MAX,
            ..*listener
        };
        return (Address::Ib(local), Address::Ib(none));
    };
    let raw = path.raw();
    let common = Ib {
        pkey: u16::from_be(raw.pkey),
        flow_info: u32::from_be(raw.flow_label),
        ..none
    };
    let local = Ib {
        addr: path.sgid().0,
        sid: u64::from_be(raw.service_id),
        sid_mask: u64::MAX,
        ..common
    };
    let remote = Ib {
        addr: path.dgid().0,
        ..common
    };
    (Address::Ib(local), Address::Ib(remote))
}

/// The identifier of a peer that asks a listener.
fn new_peer(
    listener: &Arc<CmId>,
    request: &ib::Request<'_>,
    found: &Found,
    qp_type: u32,
    sleep: &MaySleep,
) -> Result<Arc<CmId>> {
    let told = listener.parent.as_deref().unwrap_or(listener);
    let peer = CmId::new(New {
        net: listener.body.net().clone(),
        client: &told.body.client(),
        space: listener.body.space(),
        qp_type,
        owner: Owner::Of(&listener.body),
        parent: None,
        state: State::Connect,
    })?;
    let primary = request.paths.map(|(path, _)| path);
    let (local, remote) = match (listener.ends().0, &found.header) {
        (Some(Address::Ib(own)), _) => ib_ends(&own, primary),
        (Some(_), Parsed::Ip(header)) => {
            let ends = header.ends(port_of(u64::from_be(request.service_id)));
            (ends.local, ends.remote)
        }
        _ => return Err(ENOMEM),
    };
    peer.set_ends(Some(local), Some(remote));
    if let Some((primary, alternate)) = request.paths {
        let mut paths = KVec::with_capacity(2, GFP_KERNEL)?;
        paths.push(primary.duplicate(), GFP_KERNEL)?;
        if let Some(alternate) = alternate {
            paths.push(alternate.duplicate(), GFP_KERNEL)?;
        }
        drop(
            peer.body
                .set_records(Some(KBox::new(Records::new(paths), GFP_KERNEL)?)),
        );
    }
    set_source(&peer, request, found, &local, primary, sleep)?;
    if let Some(primary) = primary {
        peer.body.set_destination_gid(primary.dgid());
    }
    Ok(peer)
}

/// Sets the link-layer address of a peer's identifier.
fn set_source(
    peer: &CmId,
    request: &ib::Request<'_>,
    found: &Found,
    local: &Address,
    primary: Option<&Path>,
    sleep: &MaySleep,
) -> Result {
    if let Some(ndev) = &found.ndev {
        peer.body.copy_source_of(ndev);
        return Ok(());
    }
    if !local.is_any() {
        return translate(peer, local, sleep);
    }
    if let (Some(path), false) = (primary, request.device().is_roce(request.port)) {
        peer.body.set_link_type(INFINIBAND);
        peer.body.set_source_gid(Gid(path.sgid().0));
        peer.body.set_pkey(u16::from_be(path.raw().pkey));
    }
    Ok(())
}

/// What an iWARP peer says of a connection.
fn iw_connection<'a>(event: &iw::Event<'a>, has_depths: bool) -> Connection<'a> {
    let (ird, ord) = match has_depths {
        true => event.depths(),
        false => (0, 0),
    };
    Connection {
        private_data: event.private_data(),
        initiator_depth: ird,
        responder_resources: ord,
        ..Connection::default()
    }
}

/// Takes both ends of an iWARP connection.
fn take_ends(id: &CmId, ends: &(SockAddr, SockAddr)) {
    id.set_ends(parse(&ends.0), parse(&ends.1));
}

impl iw::Receiver for CmId {
    fn event(
        this: &Arc<Self>,
        event: &iw::Event<'_>,
        sleep: &MaySleep,
    ) -> Option<(IwCm<Self>, c_int)> {
        let handling = this.body.handling(sleep);
        let rule = match event.kind() {
            bindings::IW_CM_EVENT_CLOSE => IwTold::Close(event.status()),
            bindings::IW_CM_EVENT_CONNECT_REPLY => IwTold::ConnectReply(event.status()),
            bindings::IW_CM_EVENT_ESTABLISHED => IwTold::Established(event.status()),
            _ => return None,
        };
        let told = rule.told();
        this.happen(told.input)?;
        if let IwTold::ConnectReply(_) = rule {
            take_ends(this, &event.ends());
        }
        let has_depths = told.event == Kind::Established;
        let asked = iw_connection(event, has_depths);
        let mut telling = Event::of_connection(told.event as u32, told.status, &asked);
        let given_up = tell(this, &mut telling, &handling, sleep)?;
        let lower = take_iw(this, sleep);
        end_handling(this, handling, sleep);
        Some((lower?, given_up.code))
    }

    fn request(
        listener: &Arc<Self>,
        event: &iw::Event<'_>,
        offered: iw::Offered<'_, Self>,
        sleep: &MaySleep,
    ) -> Result<(), (c_int, Option<IwCm<Self>>)> {
        let code = |error: Error| (error.to_errno(), None);
        let listening = listener.body.handling(sleep);
        if look_up(listener.state(), Input::Request).is_none() {
            return Err(code(ECONNABORTED));
        }
        let told = listener.parent.as_deref().unwrap_or(listener);
        let peer = CmId::new(New {
            net: listener.body.net().clone(),
            client: &told.body.client(),
            space: bindings::RDMA_PS_TCP,
            qp_type: bindings::IB_QPT_RC,
            owner: Owner::Of(&listener.body),
            parent: None,
            state: State::Connect,
        })
        .map_err(|_| code(ENOMEM))?;
        let handling = peer.body.handling_inside(&listening, sleep);
        let ends = event.ends();
        let attached = peer
            .body
            .translate(&ends.0, sleep)
            .and_then(|()| attach::by_listener(&peer, listener, sleep));
        if let Err(error) = attached {
            drop(listening);
            end_handling(&peer, handling, sleep);
            return Err(code(error));
        }
        drop(peer.lower.put(Lower::Iw(offered.adopt(&peer)), sleep));
        take_ends(&peer, &ends);
        let asked = iw_connection(event, true);
        let mut telling = Event::of_connection(Kind::ConnectRequest as u32, 0, &asked);
        if let Some(given_up) = offer(&peer, &mut telling, &handling, sleep) {
            let lower = take_iw(&peer, sleep);
            drop(listening);
            end_handling(&peer, handling, sleep);
            return Err((given_up.code, lower));
        }
        drop(handling);
        Ok(())
    }
}
