// SPDX-License-Identifier: GPL-2.0

//! The client of the subnet administrator (SA): path, service, GUID and multicast member records.
//!
//! Files by level; a file imports only from those below it:
//!
//! | file | what |
//! |---|---|
//! | this one | exported functions |
//! | [`multicast`] | joining and leaving multicast groups: one membership of each port for all members |
//! | [`port`] | ports of subnets with an SA |
//! | [`path`], [`service`], [`guid_info`], [`mcmember`] | queries by kind of record |
//! | [`local_service`] | path queries to the local service of user space |
//! | [`address`] | address and capabilities of the SA |
//! | [`query`] | sending queries |
//! | [`state`] | data of ports and queries |
//! | [`record`] | packing and unpacking records |
//!
//! RoCE ports have no SA: paths are resolved by IP address (see [`addr`](crate::addr)), and joining a multicast group
//! generates no notification. Functions for such a port return `ENODEV`.
//!
//! C header: `include/rdma/ib_sa.h`. IBTA specification, volume 1, chapter 15.

mod address;
mod guid_info;
mod local_service;
mod mcmember;
mod multicast;
mod path;
mod port;
mod query;
mod record;
mod service;
mod state;

use kernel::{
    ffi::{c_int, c_ulong},
    prelude::*,
};
use kernel_ext::{
    bindings as c,
    entry::{ErrPtr, Out},
    export::export,
};
use rdma::{
    client::registration::Registration,
    core::{
        callback::{Context, Handler},
        mad::{send::SendFlags, OwnedArg},
        object::Owned,
        path::Path,
        sa::{
            GuidInfoCallback, GuidInfoHandler, MulticastFn, NewSaClient, PathCallback, PathHandler,
            SaClient, SaQueryOut, ServiceCallback, ServiceHandler,
        },
        Device,
    },
    Gid, MaySleep,
};

use crate::mad::post;
use multicast::{Join, Member};
use path::ClientRequest;

/// Keeps the SA client running until it is dropped. Fields are dropped in this order.
pub(crate) struct Parts {
    _multicast: multicast::Started,
    _ports: Registration<port::Ports>,
    _local_service: local_service::Registration,
}

/// Finds the SAs of all devices' subnets. Called once when the module is loaded, after `mad::start`.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start(sleep: &MaySleep) -> Result<Parts> {
    let _local_service = local_service::start(sleep)?;
    let _ports = port::start_client(sleep)?;
    let _multicast = multicast::start(sleep)?;
    Ok(Parts {
        _multicast,
        _ports,
        _local_service,
    })
}

/// The ID of a query, or a negative errno.
fn number(query: Result<u32>) -> c_int {
    // IDs have 31 bits.
    query.map_or_else(Error::to_errno, |id| id as c_int)
}

/// Registers a client. Any context.
#[export]
fn ib_sa_register_client(client: NewSaClient<'_>) {
    client.begin();
}

/// Unregisters a client; when this returns, all its queries have completed. Process context.
#[export]
fn ib_sa_unregister_client(client: Owned<SaClient>, sleep: &MaySleep) {
    client.end(sleep);
}

/// Cancels the query with this ID, if `query` is its cookie: it completes with `EINTR`. Any context.
#[export]
fn ib_sa_cancel_query(id: c_int, query: *mut c::ib_sa_query) {
    let found = u32::try_from(id)
        .ok()
        .and_then(|id| query::find(id, query.addr()));
    if let Some(found) = found {
        if !local_service::cancel(&found) {
            // The response may have arrived already.
            let _ = post::modify(&found.send, 0);
        }
    }
}

/// Queries a path. The callback gets the result: 0, `EINTR` when canceled, `ETIMEDOUT`, `EINVAL` where there is no
/// path, `EIO`. Returns the ID of the query. Sleeps only if `gfp_mask` allows it.
///
/// # Errors
///
/// `ENODEV` for a port without an SA, `EAGAIN` while its address is not known, `EINVAL` for a RoCE path, `ENOMEM`, and
/// those of posting a MAD.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_sa_path_rec_get(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut Path,
    comp_mask: c::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: PathHandler<'_>,
    context: Context<'_>,
    query: SaQueryOut<'_>,
) -> c_int {
    let wanted = ClientRequest {
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut query = query;
    let callback = PathCallback::new(client, callback, context);
    number(path::get(&wanted, rec, callback, &mut query))
}

/// Queries services, as `ib_sa_path_rec_get` does a path; the callback gets `ENODATA` where there is none.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_sa_service_rec_get(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::sa_service_rec,
    comp_mask: c::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: ServiceHandler<'_>,
    context: Context<'_>,
    sa_query: SaQueryOut<'_>,
) -> c_int {
    let wanted = ClientRequest {
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut sa_query = sa_query;
    let callback = ServiceCallback::new(client, callback, context);
    number(service::get(&wanted, rec, callback, &mut sa_query))
}

/// Queries, sets or deletes GUIDs of a port's virtual ports, by `method`.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`; `EINVAL` for an invalid method.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_sa_guid_info_rec_query(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::ib_sa_guidinfo_rec,
    comp_mask: c::ib_sa_comp_mask,
    method: u8,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: GuidInfoHandler<'_>,
    context: Context<'_>,
    sa_query: SaQueryOut<'_>,
) -> c_int {
    let wanted = ClientRequest {
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut sa_query = sa_query;
    let callback = GuidInfoCallback::new(client, callback, context);
    number(guid_info::query(
        &wanted,
        rec,
        method,
        callback,
        &mut sa_query,
    ))
}

/// Joins a multicast group. The callback is called when the join completes, and when the membership is lost. Sleeps
/// only if `gfp_mask` allows it.
///
/// # Errors
///
/// `ENODEV` for a port without an SA, `ENOMEM`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_sa_join_multicast(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::ib_sa_mcmember_rec,
    comp_mask: c::ib_sa_comp_mask,
    gfp_mask: SendFlags<'_>,
    callback: Handler<'_, MulticastFn>,
    context: Context<'_>,
) -> ErrPtr<c::ib_sa_multicast> {
    let join = Join {
        record: rec,
        mask: comp_mask,
        callback,
        context,
    };
    ErrPtr(multicast::join(client, (device, port_num), join, &gfp_mask))
}

/// Leaves a multicast group. When this returns, the callback is not called any more. Process context, not from the
/// callback.
#[export]
fn ib_sa_free_multicast(multicast: OwnedArg<Member>, sleep: &MaySleep) {
    multicast::leave(multicast.0, sleep);
}

/// Looks up a group that a port has joined. Any context.
///
/// # Errors
///
/// `ENODEV` for a port without an SA, `EADDRNOTAVAIL` for a group that the port has not joined.
#[export]
fn ib_sa_get_mcmember_rec(
    device: &Device,
    port_num: u32,
    mgid: &mut c::ib_gid,
    rec: Out<'_, c::ib_sa_mcmember_rec>,
) -> Result {
    rec.set(multicast::find(device, port_num, Gid::from_raw(mgid))?);
    Ok(())
}
