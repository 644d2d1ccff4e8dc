// SPDX-License-Identifier: GPL-2.0

//! The exported functions.
//!
//! C headers: `include/rdma/rdma_cm.h`, `include/rdma/rdma_cm_ib.h`.

use cm_rules::{event, state::State};
use kernel::{
    ffi::{c_char, c_int, c_void},
    prelude::*,
    sync::Arc,
};
use kernel_ext::{
    bindings::{
        ib_gid, ib_qp_attr, iw_cm_id, rdma_cm_event_handler, ECONNREFUSED,
        IB_CM_REJ_CONSUMER_DEFINED, RDMA_NODE_RNIC,
    },
    entry::Out,
    export::export,
    net::ns::NetRef,
};
use rdma::{
    core::{
        callback::{Context, Handler},
        cma::{
            event::GroupContext,
            handler::{InHandler, UnlockArg},
            id::{Client, ModuleName, Owner},
            param::{
                current_net, AddressArg, ConnParamArg, ConstAddressArg, EceArg, EventArg, NetArg,
                PathArg, ServiceArg,
            },
            trace,
        },
        connection::{PrivateDataArg, PrivateLenArg},
        mad::{ArcOrErr, Borrowed, OwnedArg},
        qp::QpInitMut,
        Pd,
    },
    MaySleep,
};

use crate::{
    client::destroy_id,
    connect,
    devices::{manager, Manager},
    id::{CmId, New},
    listen, mcast, options, qp, resolve,
};

fn create(
    net: Option<NetRef>,
    client: &Client,
    kind: (u32, u32),
    owner: Owner<'_>,
) -> Result<Arc<CmId>> {
    CmId::new(New {
        net: net.ok_or(EINVAL)?,
        client,
        space: kind.0,
        qp_type: kind.1,
        owner,
        parent: None,
        state: State::Idle,
    })
}

/// Creates an identifier of a module in a namespace, whose events are told to the handler. Process context.
#[export]
fn __rdma_create_kernel_id(
    net: NetArg,
    event_handler: Handler<'_, rdma_cm_event_handler>,
    context: Context<'_>,
    ps: u32,
    qp_type: u32,
    caller: ModuleName<'_>,
) -> ArcOrErr<CmId> {
    let client = Client::new(event_handler, context);
    ArcOrErr(create(net.0, &client, (ps, qp_type), Owner::Module(caller)))
}

/// Creates an identifier of the current process in its namespace, whose events are told to the handler. Process context.
#[export]
fn rdma_create_user_id(
    event_handler: Handler<'_, rdma_cm_event_handler>,
    context: Context<'_>,
    ps: u32,
    qp_type: u32,
) -> ArcOrErr<CmId> {
    let client = Client::new(event_handler, context);
    ArcOrErr(create(
        current_net(),
        &client,
        (ps, qp_type),
        Owner::Process,
    ))
}

/// Destroys an identifier. The handler does not run any more when this returns. Process context, not in a handler of the identifier.
#[export]
fn rdma_destroy_id(id: OwnedArg<CmId>, sleep: &MaySleep) {
    destroy_id(id.0, sleep);
}

/// Restricts an identifier to devices of a type. Process context.
#[export]
fn rdma_restrict_node_type(id: Borrowed<'_, CmId>, node_type: u8) -> Result {
    options::restrict(&id, node_type)
}

/// Binds an identifier to an address. Process context.
#[export]
fn rdma_bind_addr(id: Borrowed<'_, CmId>, addr: AddressArg, sleep: &MaySleep) -> Result {
    resolve::bind_addr(&id.hold(), addr.0, sleep)
}

/// Resolves the address of a peer. Process context.
#[export]
fn rdma_resolve_addr(
    id: Borrowed<'_, CmId>,
    src_addr: AddressArg,
    dst_addr: ConstAddressArg,
    timeout_ms: usize,
    sleep: &MaySleep,
) -> Result {
    resolve::resolve_addr(&id.hold(), src_addr.0, dst_addr.0, timeout_ms, sleep)
}

/// Resolves the route to a peer. Process context.
#[export]
fn rdma_resolve_route(id: Borrowed<'_, CmId>, timeout_ms: usize, sleep: &MaySleep) -> Result {
    resolve::resolve_route(&id.hold(), timeout_ms, sleep)
}

/// Looks the record of a service up. Process context.
#[export]
fn rdma_resolve_ib_service(
    id: Borrowed<'_, CmId>,
    ibs: ServiceArg<'_>,
    sleep: &MaySleep,
) -> Result {
    resolve::resolve_service(&id.hold(), ibs.0, sleep)
}

/// Sets the path to a peer. Process context.
#[export]
fn rdma_set_ib_path(id: Borrowed<'_, CmId>, path_rec: PathArg) -> Result {
    resolve::set_ib_path(&id.hold(), path_rec.0)
}

/// Creates the queue pair of an identifier. Process context.
#[export]
fn rdma_create_qp(
    id: Borrowed<'_, CmId>,
    pd: &Pd,
    qp_init_attr: QpInitMut<'_>,
    sleep: &MaySleep,
) -> Result {
    let created = qp::create(&id, pd, &qp_init_attr, sleep);
    trace::cm_qp_create(&id.body, pd, &qp_init_attr, &created);
    created
}

/// Destroys the queue pair of an identifier. Process context.
#[export]
fn rdma_destroy_qp(id: Borrowed<'_, CmId>, sleep: &MaySleep) {
    trace::cm_qp_destroy(&id.body);
    id.body.destroy_qp(&id.qp, sleep);
}

/// Tells which attributes a queue pair needs for the state that they name. Process context.
#[export]
fn rdma_init_qp_attr(
    id: Borrowed<'_, CmId>,
    qp_attr: &mut ib_qp_attr,
    qp_attr_mask: Out<'_, c_int>,
    sleep: &MaySleep,
) -> Result {
    qp::init_attr(&id, qp_attr, qp_attr_mask.zeroed(), sleep)
}

/// Connects. Process context.
#[export]
fn rdma_connect(id: Borrowed<'_, CmId>, conn_param: ConnParamArg<'_>, sleep: &MaySleep) -> Result {
    let handling = id.body.handling(sleep);
    connect::connect(&id.hold(), conn_param.0, &handling, sleep)
}

/// Connects, in a handler of the identifier or with its handler lock.
#[export]
fn rdma_connect_locked(
    id: InHandler<'_, CmId>,
    conn_param: ConnParamArg<'_>,
    sleep: &MaySleep,
) -> Result {
    connect::connect(&id.hold(), conn_param.0, id.handling(), sleep)
}

/// Connects with options of the vendor. Process context.
#[export]
fn rdma_connect_ece(
    id: Borrowed<'_, CmId>,
    conn_param: ConnParamArg<'_>,
    ece: EceArg,
    sleep: &MaySleep,
) -> Result {
    connect::set_ece(&id, ece.0);
    let handling = id.body.handling(sleep);
    connect::connect(&id.hold(), conn_param.0, &handling, sleep)
}

/// Listens. Process context.
#[export]
fn rdma_listen(id: Borrowed<'_, CmId>, backlog: c_int, sleep: &MaySleep) -> Result {
    listen::listen(&id.hold(), backlog, sleep)
}

/// Accepts a peer, in a handler of the identifier or with its handler lock.
#[export]
fn rdma_accept(id: InHandler<'_, CmId>, conn_param: ConnParamArg<'_>, sleep: &MaySleep) -> Result {
    connect::accept(&id.hold(), conn_param.0, id.handling(), sleep)
}

/// Accepts a peer with options of the vendor, in a handler of the identifier or with its handler lock.
#[export]
fn rdma_accept_ece(
    id: InHandler<'_, CmId>,
    conn_param: ConnParamArg<'_>,
    ece: EceArg,
    sleep: &MaySleep,
) -> Result {
    let held = id.hold();
    connect::set_ece(&held, ece.0);
    connect::accept(&held, conn_param.0, id.handling(), sleep)
}

/// Takes the handler lock. Process context.
#[export]
fn rdma_lock_handler(id: Borrowed<'_, CmId>, sleep: &MaySleep) {
    id.body.lock_for_client(sleep);
}

/// Gives the handler lock up.
#[export]
fn rdma_unlock_handler(id: UnlockArg<'_>) {
    drop(id);
}

/// Tells of an event of the queue pair. Any context.
#[export]
fn rdma_notify(id: Borrowed<'_, CmId>, event: u32) -> Result {
    connect::notify(&id, event)
}

/// Refuses a peer. Process context.
#[export]
fn rdma_reject<'a>(
    id: Borrowed<'a, CmId>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    reason: u8,
    sleep: &MaySleep,
) -> Result {
    let data = private_data.with(private_data_len);
    connect::reject(&id, &data, reason, sleep)
}

/// Disconnects. Process context.
#[export]
fn rdma_disconnect(id: Borrowed<'_, CmId>, sleep: &MaySleep) -> Result {
    connect::disconnect(&id, sleep)
}

/// Joins a multicast group. Process context.
#[export]
fn rdma_join_multicast(
    id: Borrowed<'_, CmId>,
    addr: AddressArg,
    join_state: u8,
    context: GroupContext,
    sleep: &MaySleep,
) -> Result {
    mcast::join(&id.hold(), addr.0, join_state, context, sleep)
}

/// Leaves a multicast group. Process context.
#[export]
fn rdma_leave_multicast(id: Borrowed<'_, CmId>, addr: AddressArg, sleep: &MaySleep) {
    mcast::leave(&id, addr.0, sleep);
}

/// Sets the type of service. Process context.
#[export]
fn rdma_set_service_type(id: Borrowed<'_, CmId>, tos: c_int) {
    options::set_service_type(&id, tos);
}

/// Sets the time of an acknowledgement. Process context.
#[export]
fn rdma_set_ack_timeout(id: Borrowed<'_, CmId>, timeout: u8) -> Result {
    options::set_ack_timeout(&id, timeout)
}

/// Sets the time that a peer waits which finds no receive request. Process context.
#[export]
fn rdma_set_min_rnr_timer(id: Borrowed<'_, CmId>, min_rnr_timer: u8) -> Result {
    options::set_min_rnr_timer(&id, min_rnr_timer)
}

/// Says whether others may have the same address. Process context.
#[export]
fn rdma_set_reuseaddr(id: Borrowed<'_, CmId>, reuse: c_int) -> Result {
    options::set_reuse(&id, reuse != 0)
}

/// Says whether a wildcard address is of its family alone. Process context.
#[export]
fn rdma_set_afonly(id: Borrowed<'_, CmId>, afonly: c_int) -> Result {
    options::set_family_only(&id, afonly != 0)
}

/// The service of an address, in network byte order. Any context.
#[export]
fn rdma_get_service_id(id: Borrowed<'_, CmId>, addr: AddressArg) -> u64 {
    resolve::service_of_raw(&id, addr.0)
}

/// Both GIDs of an identifier. Any context.
#[export]
fn rdma_read_gids(
    cm_id: Borrowed<'_, CmId>,
    sgid: Option<Out<'_, ib_gid>>,
    dgid: Option<Out<'_, ib_gid>>,
) {
    let (source, destination) = resolve::gids(&cm_id);
    for (place, gid) in [(sgid, source), (dgid, destination)] {
        if let Some(place) = place {
            place.set(gid.to_raw());
        }
    }
}

/// The identifier of `iw_cm`, if the device is one of iWARP. Process context.
#[export]
fn rdma_iw_cm_id(cm_id: Borrowed<'_, CmId>, sleep: &MaySleep) -> *mut iw_cm_id {
    match cm_id.bound() {
        Some(bound) if bound.device.node_type() == RDMA_NODE_RNIC => cm_id.lower.iw(sleep),
        _ => core::ptr::null_mut(),
    }
}

/// The text of an event. Any context.
#[export]
fn rdma_event_msg(event: u32) -> *const c_char {
    event::message(event).as_char_ptr()
}

/// Who manages the connections of an identifier.
fn manager_of(id: &CmId) -> Option<Manager> {
    let bound = id.bound()?;
    manager(&bound.device, bound.port)
}

/// The meaning of a reason to refuse. Any context.
#[export]
fn rdma_reject_msg(id: Borrowed<'_, CmId>, reason: c_int) -> *const c_char {
    rdma_cma::reason::text(manager_of(&id).map(|by| by == Manager::Ib), reason)
}

/// The private data of a refusal, if the peer's client has refused. Any context.
#[export]
fn rdma_consumer_reject_data(
    id: Borrowed<'_, CmId>,
    ev: EventArg<'_>,
    data_len: Out<'_, u8>,
) -> *const c_void {
    let by_client = match manager_of(&id) {
        Some(Manager::Ib) => ev.status() == IB_CM_REJ_CONSUMER_DEFINED as c_int,
        Some(Manager::Iw) => ev.status() == (ECONNREFUSED as c_int).wrapping_neg(),
        None => false,
    };
    let (data, length) = match by_client {
        true => ev.private_data(),
        false => (core::ptr::null(), 0),
    };
    data_len.set(length);
    data
}
