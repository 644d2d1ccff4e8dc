// SPDX-License-Identifier: GPL-2.0

//! The exported functions.
//!
//! C header: `include/rdma/ib_cm.h`.

use ib_cm_protocol::{
    qp_attr::{self, mask, Alternate},
    reject,
};
use kernel::{
    ffi::{c_char, c_int},
    prelude::*,
};
use kernel_ext::{
    bindings::{
        ib_cm_handler, IB_ACCESS_FLUSH_GLOBAL, IB_ACCESS_FLUSH_PERSISTENT, IB_ACCESS_REMOTE_ATOMIC,
        IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE, IB_DEVICE_FLUSH_GLOBAL,
        IB_DEVICE_FLUSH_PERSISTENT, IB_EVENT_COMM_EST, IB_EVENT_PATH_MIG, IB_MIG_REARM,
        IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS,
    },
    entry::Out,
    export::export,
};
use rdma::{
    core::{
        callback::{Context, Handler},
        cm::{
            id::Client,
            param::{InfoArg, InfoLenArg, RepParam, ReqParam, SidrRepParam, SidrReqParam},
            trace,
        },
        connection::{Filling, PrivateDataArg, PrivateLenArg, QpAttrRequest},
        mad::{ArcOrErr, Borrowed, OwnedArg},
        Device,
    },
    MaySleep,
};

use crate::{
    calls, end,
    id::{CmId, Inner},
};

/// Creates an identifier, whose events are told to the handler. May sleep.
#[export]
fn ib_create_cm_id(
    device: &Device,
    cm_handler: Handler<'_, ib_cm_handler>,
    context: Context<'_>,
    sleep: &MaySleep,
) -> ArcOrErr<CmId> {
    let client = Client::new(cm_handler, context);
    ArcOrErr(calls::create(device, &client, sleep))
}

/// Destroys an identifier. The handler does not run any more when this returns. Process context, not in a handler of the identifier.
#[export]
fn ib_destroy_cm_id(cm_id: OwnedArg<CmId>, sleep: &MaySleep) {
    end::destroy(cm_id.0, sleep);
}

/// Listens for a service, in network byte order. Process context.
#[export]
fn ib_cm_listen(cm_id: Borrowed<'_, CmId>, service_id: u64, sleep: &MaySleep) -> Result {
    calls::listen(&cm_id.hold(), service_id, sleep)
}

/// Creates a listener, or shares one with the same handler. Process context.
#[export]
fn ib_cm_insert_listen(
    device: &Device,
    cm_handler: Handler<'_, ib_cm_handler>,
    service_id: u64,
    sleep: &MaySleep,
) -> ArcOrErr<CmId> {
    let client = Client::without_context(cm_handler);
    ArcOrErr(calls::insert_listen(device, &client, service_id, sleep))
}

/// Asks for a connection. Process context.
#[export]
fn ib_send_cm_req(cm_id: Borrowed<'_, CmId>, param: ReqParam<'_>, sleep: &MaySleep) -> Result {
    calls::send_req(&cm_id.hold(), param, sleep)
}

/// Accepts a peer. Process context.
#[export]
fn ib_send_cm_rep(cm_id: Borrowed<'_, CmId>, param: RepParam<'_>, sleep: &MaySleep) -> Result {
    calls::send_rep(&cm_id.hold(), param, sleep)
}

/// Says that the connection is there. Process context.
#[export]
fn ib_send_cm_rtu<'a>(
    cm_id: Borrowed<'a, CmId>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    sleep: &MaySleep,
) -> Result {
    calls::send_rtu(&cm_id.hold(), &private_data.with(private_data_len), sleep)
}

/// Disconnects. Process context.
#[export]
fn ib_send_cm_dreq<'a>(
    cm_id: Borrowed<'a, CmId>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    sleep: &MaySleep,
) -> Result {
    calls::send_dreq(&cm_id.hold(), &private_data.with(private_data_len), sleep)
}

/// Agrees to disconnect. Process context.
#[export]
fn ib_send_cm_drep<'a>(
    cm_id: Borrowed<'a, CmId>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    sleep: &MaySleep,
) -> Result {
    calls::send_drep(&cm_id.hold(), &private_data.with(private_data_len), sleep)
}

/// Refuses a peer. Process context.
#[export]
fn ib_send_cm_rej<'a>(
    cm_id: Borrowed<'a, CmId>,
    reason: u32,
    ari: InfoArg<'a>,
    ari_length: InfoLenArg<'a>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    sleep: &MaySleep,
) -> Result {
    let (info, data) = (ari.with(ari_length), private_data.with(private_data_len));
    calls::send_rej(&cm_id.hold(), reason, &info, &data, sleep)
}

/// Answers duplicates of the peer's message with an MRA from now on. Process context.
#[export]
fn ib_prepare_cm_mra(cm_id: Borrowed<'_, CmId>, sleep: &MaySleep) -> Result {
    calls::prepare_mra(&cm_id.hold(), sleep)
}

/// Asks for the queue pair of a service. Process context.
#[export]
fn ib_send_cm_sidr_req(
    cm_id: Borrowed<'_, CmId>,
    param: SidrReqParam<'_>,
    sleep: &MaySleep,
) -> Result {
    calls::send_sidr_req(&cm_id.hold(), param, sleep)
}

/// Answers which queue pair a service has. Process context.
#[export]
fn ib_send_cm_sidr_rep(
    cm_id: Borrowed<'_, CmId>,
    param: SidrRepParam<'_>,
    sleep: &MaySleep,
) -> Result {
    calls::send_sidr_rep(&cm_id.hold(), param, sleep)
}

/// Tells of an event of the queue pair: `IB_EVENT_COMM_EST`, `IB_EVENT_PATH_MIG`. Any context.
#[export]
fn ib_cm_notify(cm_id: Borrowed<'_, CmId>, event: u32) -> Result {
    match event {
        IB_EVENT_COMM_EST => cm_id.hold().establish(),
        IB_EVENT_PATH_MIG => cm_id.hold().migrate(),
        _ => Err(EINVAL),
    }
}

/// Tells which attributes a queue pair needs for the state that they name. Process context.
#[export]
fn ib_cm_init_qp_attr(
    cm_id: Borrowed<'_, CmId>,
    mut qp_attr: QpAttrRequest<'_>,
    qp_attr_mask: Out<'_, c_int>,
    sleep: &MaySleep,
) -> Result {
    let state = qp_attr.state();
    let mut filling = qp_attr.fill();
    cm_id.with(sleep, |inner| {
        let filled = match state {
            IB_QPS_INIT => init(inner, cm_id.body.device(), &mut filling),
            IB_QPS_RTR => rtr(inner, &mut filling),
            IB_QPS_RTS => rts(inner, &mut filling),
            _ => None,
        };
        if filled.is_none() {
            let tell = match state {
                IB_QPS_INIT => trace::icm_qp_init_err,
                IB_QPS_RTR => trace::icm_qp_rtr_err,
                IB_QPS_RTS => trace::icm_qp_rts_err,
                _ => return Err(EINVAL),
            };
            tell(&cm_id.body, inner.connection.state() as u32);
        }
        filled.ok_or(EINVAL)
    })?;
    qp_attr_mask.set(filling.mask());
    Ok(())
}

fn init(inner: &Inner, device: &Device, filling: &mut Filling<'_>) -> Option<()> {
    let wanted = qp_attr::init(&inner.connection).ok()?;
    let flushes = device.attrs().device_cap_flags
        & (IB_DEVICE_FLUSH_GLOBAL | IB_DEVICE_FLUSH_PERSISTENT) as u64
        != 0;
    let reads = IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC;
    let access = match (wanted.serves_reads, flushes) {
        (false, _) => 0,
        (true, false) => reads,
        (true, true) => reads | IB_ACCESS_FLUSH_GLOBAL | IB_ACCESS_FLUSH_PERSISTENT,
    };
    let av = inner.av.as_ref()?;
    filling
        .state()
        .access((IB_ACCESS_REMOTE_WRITE | access) as c_int);
    filling.pkey_index(av.pkey_index).port(av.port.number);
    Some(())
}

fn alternate(inner: &Inner) -> Alternate {
    Alternate {
        has_dlid: inner
            .alternate
            .as_ref()
            .is_some_and(|av| av.vector.has_dlid()),
        has_port: inner.alternate.is_some(),
    }
}

fn fill_alternate(inner: &Inner, timeout: u8, filling: &mut Filling<'_>) {
    if let Some(av) = &inner.alternate {
        filling.alternate(&av.vector, av.port.number, av.pkey_index, timeout);
    }
}

fn rtr(inner: &Inner, filling: &mut Filling<'_>) -> Option<()> {
    let wanted = qp_attr::rtr(&inner.connection, alternate(inner)).ok()?;
    let av = inner.av.as_ref()?;
    filling
        .state()
        .address(
            &av.vector,
            av.data_lid.filter(|lid| !matches!(*lid, 0 | u16::MAX)),
        )
        .path_mtu(wanted.path_mtu.into())
        .dest_qp(wanted.dest_qp_num)
        .rq_psn(wanted.rq_psn);
    if wanted.mask & mask::MAX_DEST_RD_ATOMIC != 0 {
        filling
            .max_dest_rd_atomic(wanted.max_dest_rd_atomic)
            .min_rnr_timer(0);
    }
    if wanted.mask & mask::ALT_PATH != 0 {
        fill_alternate(inner, wanted.alt_timeout, filling);
    }
    Some(())
}

fn rts(inner: &Inner, filling: &mut Filling<'_>) -> Option<()> {
    let wanted = qp_attr::rts(&inner.connection, alternate(inner)).ok()?;
    let has = |bit| wanted.mask & bit != 0;
    if has(mask::STATE) {
        filling.state();
    }
    if has(mask::SQ_PSN) {
        filling.sq_psn(wanted.sq_psn);
    }
    if has(mask::RETRY_CNT) {
        filling
            .retry_cnt(wanted.retry_cnt)
            .rnr_retry(wanted.rnr_retry)
            .max_rd_atomic(wanted.max_rd_atomic);
    }
    if has(mask::TIMEOUT) {
        filling.timeout(wanted.timeout);
    }
    if has(mask::ALT_PATH) {
        fill_alternate(inner, wanted.alt_timeout, filling);
    }
    if has(mask::PATH_MIG_STATE) {
        filling.path_mig_state(IB_MIG_REARM);
    }
    Some(())
}

/// The meaning of a reason to refuse. Any context.
#[export]
fn ibcm_reject_msg(reason: c_int) -> *const c_char {
    reject::text(reason).as_char_ptr()
}
