// SPDX-License-Identifier: GPL-2.0

//! What an identifier knows of addresses and routes.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use core::mem::offset_of;

use kernel::{prelude::*, transmute::AsBytes};
use kernel_ext::{
    bindings::{
        rdma_ucm_query_addr_resp, rdma_ucm_query_route_resp, RDMA_USER_CM_QUERY_ADDR,
        RDMA_USER_CM_QUERY_GID, RDMA_USER_CM_QUERY_IB_SERVICE, RDMA_USER_CM_QUERY_PATH,
    },
    error::{ENODATA, ENOSYS},
};
use rdma_user_cm::{Answer, Route, PATH_SIZE, SERVICE_SIZE};

use crate::{call::Call, layout::Query};

/// The size of what comes before a list: the number of its elements, and a reserved one.
const LIST: usize = 2 * size_of::<u32>();

/// The size of an answer without the members that were added later.
const ROUTE: usize = offset_of!(rdma_ucm_query_route_resp, ibdev_index);
const ADDRESSES: usize = offset_of!(rdma_ucm_query_addr_resp, ibdev_index);

/// `RDMA_USER_CM_CMD_QUERY_ROUTE`.
pub(crate) fn query_route(call: &Call<'_>) -> Result {
    call.needs_room(ROUTE)?;
    let command: Query = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    let (route, quiet) = calls.route(call.sleep);
    let found = route.answer();
    // Not while handlers wait: the program's memory may be slow.
    drop(quiet);
    call.answer(command.response, &found)
}

/// A kind of question.
type Method = fn(&Call<'_>, &Route<'_>) -> Result<Found>;

/// What is answered.
#[expect(
    clippy::large_enum_variant,
    reason = "it lies on the stack for one call, and a box is an allocation"
)]
enum Found {
    /// Addresses or GIDs.
    Pair(Answer<rdma_ucm_query_addr_resp>),
    /// A list, with its beginning.
    List(KVec<u8>),
}

/// The kinds by number.
const METHODS: [(u32, Method); 4] = [
    (RDMA_USER_CM_QUERY_ADDR, addresses),
    (RDMA_USER_CM_QUERY_PATH, paths),
    (RDMA_USER_CM_QUERY_GID, gids),
    (RDMA_USER_CM_QUERY_IB_SERVICE, services),
];

/// `RDMA_USER_CM_CMD_QUERY`.
pub(crate) fn query(call: &Call<'_>) -> Result {
    let command: Query = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    let found = METHODS.iter().find(|(kind, _)| *kind == command.option);
    let (_, method) = found.ok_or(ENOSYS)?;
    let (route, quiet) = calls.route(call.sleep);
    let found = method(call, &route)?;
    drop(quiet);
    match found {
        Found::Pair(answer) => call.answer(command.response, &answer),
        Found::List(bytes) => call.answer_bytes(command.response, &bytes),
    }
}

fn addresses(call: &Call<'_>, route: &Route<'_>) -> Result<Found> {
    call.needs_room(ADDRESSES)?;
    Ok(Found::Pair(route.addresses()))
}

fn gids(call: &Call<'_>, route: &Route<'_>) -> Result<Found> {
    call.needs_room(ADDRESSES)?;
    Ok(Found::Pair(route.gids()))
}

/// The beginning of a list, with room for so many bytes behind it.
fn list(count: u32, room: usize) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(LIST.saturating_add(room), GFP_KERNEL)?;
    bytes.extend_from_slice(&count.to_ne_bytes(), GFP_KERNEL)?;
    bytes.extend_from_slice(&0u32.to_ne_bytes(), GFP_KERNEL)?;
    Ok(bytes)
}

/// How many elements there is room for behind the beginning of a list.
fn room_for(call: &Call<'_>, size: usize) -> Result<usize> {
    call.needs_room(LIST)?;
    Ok(call
        .out_len
        .saturating_sub(LIST)
        .checked_div(size)
        .unwrap_or(0))
}

fn paths(call: &Call<'_>, route: &Route<'_>) -> Result<Found> {
    let room = room_for(call, PATH_SIZE)?;
    let (count, paths) = route.paths(room);
    let told = room.min(count as usize);
    let mut bytes = list(count, PATH_SIZE.saturating_mul(told))?;
    for path in paths {
        bytes.extend_from_slice(path.as_bytes(), GFP_KERNEL)?;
    }
    Ok(Found::List(bytes))
}

fn services(call: &Call<'_>, route: &Route<'_>) -> Result<Found> {
    let room = room_for(call, SERVICE_SIZE)?;
    let services = route.services().ok_or(ENODATA)?;
    if room == 0 {
        // Not even their number is told.
        return Ok(Found::List(KVec::new()));
    }
    let count = u32::try_from(services.len()).unwrap_or(u32::MAX);
    let told = room.min(services.len());
    let mut bytes = list(count, SERVICE_SIZE.saturating_mul(told))?;
    for service in services.iter().take(room) {
        bytes.extend_from_slice(service, GFP_KERNEL)?;
    }
    Ok(Found::List(bytes))
}
