// SPDX-License-Identifier: GPL-2.0

//! The client of the subnet administrator (SA): paths, services, GUIDs, members of multicast groups.
//!
//! From the roof down; an import goes down only:
//!
//! | file | what |
//! |---|---|
//! | this one | the doors |
//! | [`multicast`] | joining and leaving groups: one member of each port for all |
//! | [`port`] | ports of subnets that have an administrator |
//! | [`path`], [`service`], [`guid_info`], [`mcmember`] | what is asked |
//! | [`local_service`] | user space is asked for paths first |
//! | [`address`] | where the administrator is, and what it can do |
//! | [`query`] | asking |
//! | [`state`] | ports, questions |
//! | [`record`] | the records, packed and unpacked |
//!
//! Ports of RoCE have no administrator: paths are found by IP addresses there (see [`addr`](crate::addr)), and a
//! multicast group has no members to be told of. What is asked of such a port is answered with `ENODEV`.
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
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
};
use kernel_ext::{
    bindings as c,
    door::{ErrPtr, Out},
    export::export,
};
use rdma::{
    client::registration::Registration,
    core::{
        cq::Handler,
        mad::{send::SendFlags, Given},
        path::Path,
        sa::{
            GuidInfoCallback, GuidInfoHandler, MulticastFn, PathCallback, PathHandler, SaClient,
            SaQueryOut, ServiceCallback, ServiceHandler,
        },
        Device,
    },
    Gid, MaySleep,
};

use crate::mad::post;
use multicast::{Join, Member};
use path::Wanted;

/// The client is there as long as this is. Fields are dropped in this order.
pub(crate) struct Parts {
    _multicast: multicast::Started,
    _ports: Registration<port::Ports>,
    _local_service: local_service::Registration,
}

/// Makes the locks. The module's initialisation calls it, once, before all else.
pub(crate) fn init() {
    state::init();
    multicast::init();
}

/// Finds the administrators of all devices' subnets. The module's initialisation calls it, once, behind that of MADs.
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

/// The number of a question, or an errno.
fn number(asked: Result<u32>) -> c_int {
    // Numbers have 31 bits.
    asked.map_or_else(Error::to_errno, |id| id as c_int)
}

/// Registers someone who asks. Any context.
#[export]
fn ib_sa_register_client(client: &SaClient) {
    // SAFETY: The header says that the client comes: it is not registered.
    unsafe { client.begin() };
}

/// Unregisters someone who asks; when this returns, all answers were given. Process context.
#[export]
fn ib_sa_unregister_client(client: &SaClient, sleep: &MaySleep) {
    client.end(sleep);
}

/// Cancels the question of a number, if it has this name: the answer is `EINTR` then. Any context.
#[export]
fn ib_sa_cancel_query(id: c_int, query: *mut c::ib_sa_query) {
    let found = u32::try_from(id)
        .ok()
        .and_then(|id| query::find(id, query.addr()));
    if let Some(found) = found {
        if !local_service::cancel(&found) {
            // It may be answered already.
            let _ = post::modify(&found.send, 0);
        }
    }
}

/// Asks for a path; the callback gets the answer: 0, `EINTR` where it was canceled, `ETIMEDOUT`, `EINVAL` where there is none,
/// `EIO`. Returns the number of the question. Sleeps only if `gfp_mask` says so.
///
/// # Errors
///
/// `ENODEV` for a port without an administrator, `EAGAIN` while it is not known, `EINVAL` for a path of RoCE, `ENOMEM`, and
/// as posting a MAD.
#[export]
#[expect(clippy::too_many_arguments, reason = "the header has so many")]
fn ib_sa_path_rec_get(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut Path,
    comp_mask: c::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: PathHandler,
    context: *mut c_void,
    query: SaQueryOut<'_>,
) -> c_int {
    let wanted = Wanted {
        client,
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut query = query;
    let callback = PathCallback::new(callback, context);
    number(path::get(&wanted, rec, callback, &mut query))
}

/// Asks for services, as `ib_sa_path_rec_get` for a path; `ENODATA` where there is none.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`.
#[export]
#[expect(clippy::too_many_arguments, reason = "the header has so many")]
fn ib_sa_service_rec_get(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::sa_service_rec,
    comp_mask: c::ib_sa_comp_mask,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: ServiceHandler,
    context: *mut c_void,
    sa_query: SaQueryOut<'_>,
) -> c_int {
    let wanted = Wanted {
        client,
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut sa_query = sa_query;
    let callback = ServiceCallback::new(callback, context);
    number(service::get(&wanted, rec, callback, &mut sa_query))
}

/// Asks for GUIDs of a port, or sets or deletes those of virtual ports: `method` says which.
///
/// # Errors
///
/// As for `ib_sa_path_rec_get`; `EINVAL` for another method.
#[export]
#[expect(clippy::too_many_arguments, reason = "the header has so many")]
fn ib_sa_guid_info_rec_query(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::ib_sa_guidinfo_rec,
    comp_mask: c::ib_sa_comp_mask,
    method: u8,
    timeout_ms: c_ulong,
    gfp_mask: SendFlags<'_>,
    callback: GuidInfoHandler,
    context: *mut c_void,
    sa_query: SaQueryOut<'_>,
) -> c_int {
    let wanted = Wanted {
        client,
        device,
        port_num,
        mask: comp_mask,
        timeout_ms,
        flags: &gfp_mask,
    };
    let mut sa_query = sa_query;
    let callback = GuidInfoCallback::new(callback, context);
    number(guid_info::query(
        &wanted,
        rec,
        method,
        callback,
        &mut sa_query,
    ))
}

/// Joins a multicast group; the callback is told when that is done, and what becomes of the member later. Sleeps only if
/// `gfp_mask` says so.
///
/// # Errors
///
/// `ENODEV` for a port whose groups nobody administers, `ENOMEM`.
#[export]
#[expect(clippy::too_many_arguments, reason = "the header has so many")]
fn ib_sa_join_multicast(
    client: &SaClient,
    device: &Device,
    port_num: u32,
    rec: &mut c::ib_sa_mcmember_rec,
    comp_mask: c::ib_sa_comp_mask,
    gfp_mask: SendFlags<'_>,
    callback: Handler<MulticastFn>,
    context: *mut c_void,
) -> ErrPtr<c::ib_sa_multicast> {
    let join = Join {
        record: rec,
        mask: comp_mask,
        callback,
        context,
    };
    ErrPtr(multicast::join(client, (device, port_num), join, &gfp_mask))
}

/// Leaves a multicast group. When this returns the callback does not run any more. Process context, not from the callback.
#[export]
fn ib_sa_free_multicast(multicast: Given<Member>, sleep: &MaySleep) {
    multicast::leave(multicast.0, sleep);
}

/// Looks a group up that a port has joined. Any context.
///
/// # Errors
///
/// `ENODEV` for a port whose groups nobody administers, `EADDRNOTAVAIL` for a group that it has not joined.
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
