// SPDX-License-Identifier: GPL-2.0

//! Resolving the address of a peer, and the route to it; looking services up.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/rdma/ib_addr.h`.

use cm_rules::{
    address::{Address, Family},
    path::{
        flow_label, hop_limit, mtu, packet_lifetime, route_gid_type, service_type, GidType,
        GidTypes,
    },
    port_space::service_id,
    state::{Input, Step},
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{
        rdma_ucm_ib_service, IB_PATH_GMP, IB_PATH_INBOUND, IB_PATH_OUTBOUND, RDMA_NETWORK_IPV4,
        RDMA_NETWORK_IPV6, RDMA_NETWORK_ROCE_V1, RDMA_USER_CM_IB_SERVICE_FLAG_ID,
        RDMA_USER_CM_IB_SERVICE_FLAG_NAME,
    },
    error::{EAFNOSUPPORT, ENOSYS, EOPNOTSUPP},
};
use rdma::{
    core::{
        cma::{
            device::{gid_types, service_level},
            id::Records,
            query::{ask_path, ask_service, PathAsker, PathQuestion, ServiceAnswer, ServiceAsker},
            resolve::{self, Resolution, Resolves},
        },
        iw::address::SockAddr,
        path::{NewPath, Path, PathKind},
    },
    Gid, MaySleep,
};

use crate::{
    address::{gid_of, parse},
    attach,
    bind::{bind, bind_ib, bind_loopback},
    devices::{has_sa, is_opa},
    end::tell_or_end,
    id::{Bound, CmId},
    jobs::{Job, What},
    neighbours, tables,
};

/// How long the record of a service is waited for, in milliseconds.
const SERVICE_TIMEOUT_MS: usize = 2000;

/// Binds the source if it is not bound yet, and begins.
fn prepare(
    id: &Arc<CmId>,
    source: Option<Address>,
    destination: Address,
    sleep: &MaySleep,
) -> Result<Step> {
    if let Ok(step) = id.call(Input::ResolveAddr) {
        if id.ends().0.map(|own| own.family()) != Some(destination.family()) {
            id.undo(&step);
            return Err(EINVAL);
        }
        id.set_ends(None, Some(destination));
        return Ok(step);
    }
    let net_device = match (source, &destination) {
        (None, Address::Ip6(ip)) if destination.is_link_local() => Some(ip.scope_id),
        _ => None,
    };
    let source = source.unwrap_or(destination.any_source());
    bind(id, source, Some((destination, net_device)), sleep)?;
    if source.family() != destination.family() {
        return Err(EINVAL);
    }
    id.call(Input::ResolveAddr)
}

/// Begins to resolve the address of a peer. What is found is an event.
///
/// # Errors
///
/// `EAFNOSUPPORT`, `EINVAL` for addresses of two families and in a wrong state, those of binding.
pub(crate) fn resolve_addr(
    id: &Arc<CmId>,
    source: Option<SockAddr>,
    destination: Option<SockAddr>,
    timeout_ms: usize,
    sleep: &MaySleep,
) -> Result {
    let destination = destination.ok_or(EINVAL)?;
    let source = source.filter(|source| source.family() != 0);
    let Some(to) = parse(&destination) else {
        return match source.as_ref().map(parse) {
            Some(Some(_)) => Err(EINVAL),
            _ => Err(EAFNOSUPPORT),
        };
    };
    let from = match source {
        Some(source) => Some(parse(&source).ok_or(EAFNOSUPPORT)?),
        None => None,
    };
    let step = prepare(id, from, to, sleep)?;
    let begun = match (to.is_any(), to.family()) {
        (true, _) => loopback(id, sleep),
        (false, Family::Ib) => by_gid(id, &to, sleep),
        (false, _) => resolve::begin(id, &destination, timeout_ms, sleep),
    };
    if begun.is_err() {
        id.undo(&step);
    }
    begun
}

/// The peer is the host itself.
fn loopback(id: &Arc<CmId>, sleep: &MaySleep) -> Result {
    let job = Job::new(id, What::Address)?;
    let (source, _) = id.both_ends()?;
    if id.bound().is_none() {
        bind_loopback(id, source, sleep)?;
    }
    id.body.set_destination_gid(id.body.gids().0);
    job.tell(Ok(()));
    Ok(())
}

/// The peer has a GID.
fn by_gid(id: &Arc<CmId>, destination: &Address, sleep: &MaySleep) -> Result {
    let job = Job::new(id, What::Address)?;
    let (source, _) = id.both_ends()?;
    if id.bound().is_none() {
        bind_ib(id, source, destination, sleep)?;
    }
    if let Address::Ib(ib) = destination {
        id.body.set_destination_gid(Gid(ib.addr));
    }
    job.tell(Ok(()));
    Ok(())
}

// SAFETY: The resolution is a field of the identifier.
unsafe impl Resolves for CmId {
    fn resolution(&self) -> &Resolution {
        &self.resolution
    }

    fn resolved(this: Arc<Self>, result: Result, source: &SockAddr, sleep: &MaySleep) {
        use rdma::core::cma::event::Event;
        let handling = this.body.handling(sleep);
        if cm_rules::state::look_up(this.state(), Input::AddrFound).is_none() {
            return;
        }
        let found = result.and_then(|()| take_source(&this, source, sleep));
        let (input, status) = match found {
            Ok(()) => (Input::AddrFound, 0),
            Err(error) => (Input::AddrFailed, error.to_errno()),
        };
        let Some(step) = this.happen(input) else {
            return;
        };
        if let cm_rules::state::Tell::Event(event) = step.tell {
            let mut event = Event::plain(event as u32, status);
            tell_or_end(&this, &mut event, handling, sleep);
        }
    }
}

/// Takes the source address of the route, and its device. If there is none, the address stays what it was.
fn take_source(id: &Arc<CmId>, source: &SockAddr, sleep: &MaySleep) -> Result {
    let old = id.ends().0;
    let new = parse(source).ok_or(EAFNOSUPPORT)?;
    id.set_ends(Some(new), None);
    if id.bound().is_none() {
        if let Err(error) = attach::by_source(id, sleep) {
            id.set_ends(old, None);
            return Err(error);
        }
        id.body.track(sleep);
    }
    Ok(())
}

/// Begins to resolve the route. What is found is an event.
///
/// # Errors
///
/// `EINVAL` without a time and in a wrong state; `ENODEV`, `ENOMEM`, those of the subnet administrator.
pub(crate) fn resolve_route(id: &Arc<CmId>, timeout_ms: usize, sleep: &MaySleep) -> Result {
    if timeout_ms == 0 {
        return Err(EINVAL);
    }
    let step = id.call(Input::ResolveRoute)?;
    let begun = begin_route(id, timeout_ms, sleep);
    if begun.is_err() {
        id.undo(&step);
    }
    begun
}

fn begin_route(id: &Arc<CmId>, timeout_ms: usize, sleep: &MaySleep) -> Result {
    let bound = id.device()?;
    let job = Job::new(id, What::Route)?;
    if has_sa(&bound.device, bound.port) {
        return ask_route(id, &bound, &job, timeout_ms, sleep);
    }
    if bound.device.is_roce(bound.port) {
        let path = ethernet_path(id, &bound)?;
        set_path(id, path)?;
        neighbours::note(id);
    } else if !bound.device.is_iwarp(bound.port) {
        return Err(ENOSYS);
    }
    job.tell(Ok(()));
    Ok(())
}

/// Makes a path the only one of an identifier.
fn set_path(id: &CmId, path: Path) -> Result {
    let mut paths = KVec::new();
    paths.push(path, GFP_KERNEL)?;
    drop(
        id.body
            .set_records(Some(KBox::new(Records::new(paths), GFP_KERNEL)?)),
    );
    Ok(())
}

/// The kind of the path of an identifier: that of the GIDs of its route.
fn kind_of_route(id: &CmId, bound: &Bound) -> PathKind {
    let network = id.body.network();
    let over_ip = matches!(network, RDMA_NETWORK_IPV4 | RDMA_NETWORK_IPV6);
    let by_network = match network {
        RDMA_NETWORK_IPV4 | RDMA_NETWORK_IPV6 => GidType::RoceV2,
        RDMA_NETWORK_ROCE_V1 => GidType::RoceV1,
        _ => GidType::Ib,
    };
    let kinds = GidTypes(gid_types(&bound.device, bound.port));
    let own = id.with(|inner| inner.gid_type);
    match route_gid_type(over_ip, kinds, own, by_network) {
        GidType::RoceV2 => PathKind::RoceV2,
        GidType::RoceV1 => PathKind::RoceV1,
        GidType::Ib => PathKind::Ib,
    }
}

/// The Ethernet address of the next hop.
fn next_hop(id: &CmId) -> [u8; 6] {
    let (_, hardware) = id.body.hardware();
    hardware.first_chunk().copied().unwrap_or_default()
}

/// The path of an identifier over Ethernet.
fn ethernet_path(id: &CmId, bound: &Bound) -> Result<Path> {
    let (source, destination) = id.both_ends()?;
    let ndev = attach::net_device(id).ok_or(ENODEV)?;
    let settings = id.settings();
    let tos = service_type(settings.tos, bound.dev.tos(bound.port));
    let route_hops = u8::try_from(id.body.hop_limit()).unwrap_or(u8::MAX);
    let is_v2 = GidTypes(gid_types(&bound.device, bound.port)).has(GidType::RoceV2);
    let mut path = Path::new(&NewPath {
        kind: kind_of_route(id, bound),
        sgid: gid_of(&source).unwrap_or_default(),
        dgid: gid_of(&destination).unwrap_or_default(),
        lids: (0, 0),
        dmac: Some(next_hop(id)),
        service_id: 0,
        pkey: u16::MAX,
        flow_label: match is_v2 {
            true => flow_label(&source, &destination),
            false => 0,
        },
        hop_limit: hop_limit(destination.family(), route_hops),
        traffic_class: tos,
        sl: service_level(&ndev, tos),
        mtu: mtu(ndev.mtu()).ok_or(EINVAL)?,
        rate: 0,
        packet_life_time: packet_lifetime(settings.ack_timeout),
    });
    path.set_resolved();
    Ok(path)
}

/// Sets the path that a client has chosen.
///
/// # Errors
///
/// `EINVAL` in a wrong state, `ENODEV` without a net device, `ENOMEM`.
pub(crate) fn set_ib_path(id: &Arc<CmId>, mut path: Path) -> Result {
    let step = id.call(Input::SetPath)?;
    let set = id.device().and_then(|bound| {
        if bound.device.is_roce(bound.port) {
            attach::net_device(id).ok_or(ENODEV)?;
            path.set_ethernet(kind_of_route(id, &bound), next_hop(id));
        }
        set_path(id, path)
    });
    if set.is_err() {
        id.undo(&step);
    }
    set
}

/// Asks the subnet administrator for the route.
fn ask_route(
    id: &Arc<CmId>,
    bound: &Bound,
    job: &Arc<Job>,
    timeout_ms: usize,
    sleep: &MaySleep,
) -> Result {
    let (source, destination) = id.both_ends()?;
    let (sgid, dgid) = id.body.gids();
    let is_ip4 = source.family() == Family::Ip4;
    let question = PathQuestion {
        is_opa: is_opa(&bound.device, bound.port),
        sgid,
        dgid,
        pkey: id.body.pkey(),
        service_id: service_id(id.body.space(), &destination).to_be(),
        qos_class: is_ip4.then(|| id.settings().tos.unwrap_or(0).into()),
        traffic_class: (!is_ip4).then(|| source.traffic_class()),
    };
    let client = tables::sa(sleep)?;
    let place = (&*bound.device, bound.port);
    let query = ask_path(&client, place, &question, timeout_ms, job, sleep)?;
    id.with(|inner| inner.query = Some(query));
    Ok(())
}

/// Keeps the paths of an answer.
fn keep(id: &CmId, answer: &[Path]) -> Result {
    let mut records = Records::new(KVec::new());
    for path in answer {
        let (flags, path) = (path.raw().flags, path.duplicate());
        if flags == 0 || flags & IB_PATH_GMP != 0 {
            records.paths.clear();
            records.paths.push(path, GFP_KERNEL)?;
        } else if flags & IB_PATH_INBOUND != 0 {
            records.inbound = Some(KBox::new(path, GFP_KERNEL)?);
        } else if flags & IB_PATH_OUTBOUND != 0 {
            records.outbound = Some(KBox::new(path, GFP_KERNEL)?);
        } else {
            return Err(EINVAL);
        }
    }
    drop(id.body.set_records(Some(KBox::new(records, GFP_KERNEL)?)));
    Ok(())
}

impl PathAsker for Job {
    fn answered(this: Arc<Self>, result: Result, paths: &[Path]) {
        let kept = result.and_then(|()| keep(&this.id, paths));
        this.tell(kept);
    }
}

/// Begins to look a service up. What is found is an event.
///
/// # Errors
///
/// `EINVAL` unless the identifier is bound to a device, `EOPNOTSUPP` without a subnet administrator, and those of it.
pub(crate) fn resolve_service(
    id: &Arc<CmId>,
    service: &rdma_ucm_ib_service,
    sleep: &MaySleep,
) -> Result {
    let bound = id.device()?;
    let step = id.call(Input::ResolveService)?;
    let begun = (|| {
        if !has_sa(&bound.device, bound.port) {
            return Err(EOPNOTSUPP);
        }
        let has = |flag: u32| service.flags & flag != 0;
        let number = has(RDMA_USER_CM_IB_SERVICE_FLAG_ID).then_some(service.service_id);
        let name = &service.service_name[..];
        let name = has(RDMA_USER_CM_IB_SERVICE_FLAG_NAME).then_some(name);
        let job = Job::new(id, What::Service)?;
        let client = tables::sa(sleep)?;
        let place = (&*bound.device, bound.port);
        let query = ask_service(
            &client,
            place,
            (number, name),
            SERVICE_TIMEOUT_MS,
            &job,
            sleep,
        )?;
        id.with(|inner| inner.query = Some(query));
        Ok(())
    })();
    if begun.is_err() {
        id.undo(&step);
    }
    begun
}

impl ServiceAsker for Job {
    fn answered(this: Arc<Self>, result: Result, answer: Option<ServiceAnswer>) {
        let kept = result.and_then(|()| {
            let answer = answer.ok_or(ENOENT)?;
            this.id.body.set_services(answer.records)?;
            let old = match this.id.ends().1 {
                Some(Address::Ib(ib)) => Address::Ib(ib),
                _ => Address::any(Family::Ib),
            };
            if let Address::Ib(ib) = old {
                let found = Address::Ib(cm_rules::address::Ib {
                    addr: answer.gid.0,
                    pkey: answer.pkey,
                    sid: u64::from_be(answer.service_id),
                    ..ib
                });
                this.id.set_ends(None, Some(found));
            }
            this.id.body.set_destination_gid(answer.gid);
            this.id.body.set_pkey(answer.pkey);
            Ok(())
        });
        this.tell(kept);
    }
}

/// Binds an identifier to an address of C.
///
/// # Errors
///
/// `EAFNOSUPPORT` for a family that identifiers do not have, and those of [`bind`].
pub(crate) fn bind_addr(id: &Arc<CmId>, address: Option<SockAddr>, sleep: &MaySleep) -> Result {
    let address = parse(&address.ok_or(EINVAL)?).ok_or(EAFNOSUPPORT)?;
    bind(id, address, None, sleep)
}

/// The service of an address, in host order.
pub(crate) fn service_of(id: &CmId, address: &Address) -> u64 {
    service_id(id.body.space(), address)
}

/// The service of an address of C, in network byte order.
pub(crate) fn service_of_raw(id: &CmId, address: Option<SockAddr>) -> u64 {
    let address = address.as_ref().and_then(parse);
    address
        .map_or(u64::from(id.body.space()) << 16, |address| {
            service_of(id, &address)
        })
        .to_be()
}

/// Both GIDs of an identifier; zeroes without a device.
pub(crate) fn gids(id: &CmId) -> (Gid, Gid) {
    let Some(bound) = id.bound() else {
        return Default::default();
    };
    if !bound.device.is_roce(bound.port) {
        return id.body.gids();
    }
    let (source, destination) = id.ends();
    let gid = |address: Option<Address>| address.as_ref().and_then(gid_of).unwrap_or_default();
    (gid(source), gid(destination))
}
