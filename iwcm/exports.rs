// SPDX-License-Identifier: GPL-2.0

//! The exported functions.
//!
//! C header: `include/rdma/iw_cm.h`.

use kernel::{
    ffi::{c_char, c_int},
    prelude::*,
};
use kernel_ext::{
    bindings::{self, iw_cm_handler, IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS},
    entry::Out,
    export::export,
};
use rdma::{
    core::{
        callback::{Context, Handler},
        connection::{PrivateDataArg, PrivateLenArg, QpAttrRequest},
        iw::{id::Client, verbs::ConnParam},
        mad::{ArcOrErr, Borrowed, OwnedArg},
        Device,
    },
    MaySleep,
};

use crate::{calls, id::CmId};

/// Creates an identifier, whose events are told to the handler. May sleep.
#[export]
fn iw_create_cm_id(
    device: &Device,
    handler: Handler<'_, iw_cm_handler>,
    context: Context<'_>,
) -> ArcOrErr<CmId> {
    ArcOrErr(CmId::new(device, &Client::new(handler, context)))
}

/// Destroys an identifier. The handler does not run any more when this returns. Process context, not in a handler of the identifier.
#[export]
fn iw_destroy_cm_id(id: OwnedArg<CmId>, sleep: &MaySleep) {
    calls::destroy(id.0, sleep);
}

/// Listens at the local address of an identifier. Process context.
#[export]
fn iw_cm_listen(id: Borrowed<'_, CmId>, backlog: c_int, sleep: &MaySleep) -> Result {
    calls::listen(&id.hold(), backlog, sleep)
}

/// Accepts the peer of an identifier. Process context.
#[export]
fn iw_cm_accept(id: Borrowed<'_, CmId>, param: ConnParam<'_>, sleep: &MaySleep) -> Result {
    calls::accept(&id.hold(), &param, sleep)
}

/// Refuses the peer of an identifier. Process context.
#[export]
fn iw_cm_reject<'a>(
    id: Borrowed<'a, CmId>,
    private_data: PrivateDataArg<'a>,
    private_data_len: PrivateLenArg<'a>,
    sleep: &MaySleep,
) -> Result {
    calls::reject(&id.hold(), &private_data.with(private_data_len), sleep)
}

/// Connects to the remote address of an identifier. Process context.
#[export]
fn iw_cm_connect(id: Borrowed<'_, CmId>, param: ConnParam<'_>, sleep: &MaySleep) -> Result {
    calls::connect(&id.hold(), &param, sleep)
}

/// Disconnects. Process context.
#[export]
fn iw_cm_disconnect(id: Borrowed<'_, CmId>, abrupt: c_int, sleep: &MaySleep) -> Result {
    calls::disconnect(&id, abrupt != 0, sleep)
}

/// Tells which attributes a queue pair needs for the state that they name. Any context.
#[export]
fn iw_cm_init_qp_attr(
    id: Borrowed<'_, CmId>,
    mut attr: QpAttrRequest<'_>,
    mask: Out<'_, c_int>,
) -> Result {
    let state = attr.state();
    if !matches!(state, IB_QPS_INIT | IB_QPS_RTR | IB_QPS_RTS) || !id.state().has_qp_attributes() {
        return Err(EINVAL);
    }
    // The driver does the rest when it connects.
    mask.set(match state {
        IB_QPS_RTS => 0,
        _ => attr.allow_remote(),
    });
    Ok(())
}

/// What the statuses of a reply mean.
const REASONS: [(u32, &CStr); 3] = [
    (bindings::ECONNRESET, c"reset by remote host"),
    (bindings::ECONNREFUSED, c"refused by remote application"),
    (bindings::ETIMEDOUT, c"setup timeout"),
];

/// The meaning of a reply's status, a negative errno. Any context.
#[export]
fn iwcm_reject_msg(reason: c_int) -> *const c_char {
    let errno = reason.unsigned_abs();
    let known = REASONS
        .iter()
        .find(|(number, _)| *number == errno && reason < 0);
    known
        .map_or(c"unrecognized reason", |(_, text)| text)
        .as_char_ptr()
}
