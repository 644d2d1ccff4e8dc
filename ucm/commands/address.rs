// SPDX-License-Identifier: GPL-2.0

//! Addresses and routes: binding, and resolving.
//!
//! C header: `include/uapi/rdma/rdma_user_cm.h`.

use kernel::prelude::*;
use rdma_user_cm::SocketAddress;

use crate::{
    call::Call,
    layout::{Bind, BindIp, ResolveAddr, ResolveIbService, ResolveIp, ResolveRoute},
};

/// Whether a size is that of the address's family.
fn fits(address: &SocketAddress, size: u16) -> bool {
    size != 0 && address.size() == usize::from(size)
}

fn check(is_valid: bool) -> Result {
    is_valid.then_some(()).ok_or(EINVAL)
}

fn bind_to(call: &Call<'_>, id: u32, address: SocketAddress) -> Result {
    let context = call.context(id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.bind(address)
}

/// `RDMA_USER_CM_CMD_BIND_IP`.
pub(crate) fn bind_ip(call: &Call<'_>) -> Result {
    let command: BindIp = call.read()?;
    check(command.addr.size() != 0)?;
    bind_to(call, command.id, command.addr.any())
}

/// `RDMA_USER_CM_CMD_BIND`.
pub(crate) fn bind(call: &Call<'_>) -> Result {
    let command: Bind = call.read()?;
    check(command.reserved == 0 && fits(&command.addr, command.addr_size))?;
    bind_to(call, command.id, command.addr)
}

fn resolve(
    call: &Call<'_>,
    id: u32,
    (source, destination): (SocketAddress, SocketAddress),
    timeout_ms: u32,
) -> Result {
    let context = call.context(id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.resolve_addr(source, destination, timeout_ms)
}

/// `RDMA_USER_CM_CMD_RESOLVE_IP`.
pub(crate) fn resolve_ip(call: &Call<'_>) -> Result {
    let command: ResolveIp = call.read()?;
    let (source, destination) = (command.src_addr.any(), command.dst_addr.any());
    check(source.family() == 0 || command.src_addr.size() != 0)?;
    check(command.dst_addr.size() != 0)?;
    resolve(call, command.id, (source, destination), command.timeout_ms)
}

/// `RDMA_USER_CM_CMD_RESOLVE_ADDR`.
pub(crate) fn resolve_addr(call: &Call<'_>) -> Result {
    let command: ResolveAddr = call.read()?;
    let (source, destination) = (command.src_addr, command.dst_addr);
    check(command.reserved == 0)?;
    check(command.src_size == 0 || fits(&source, command.src_size))?;
    check(fits(&destination, command.dst_size))?;
    resolve(call, command.id, (source, destination), command.timeout_ms)
}

/// `RDMA_USER_CM_CMD_RESOLVE_ROUTE`.
pub(crate) fn resolve_route(call: &Call<'_>) -> Result {
    let command: ResolveRoute = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.resolve_route(command.timeout_ms)
}

/// `RDMA_USER_CM_CMD_RESOLVE_IB_SERVICE`.
pub(crate) fn resolve_ib_service(call: &Call<'_>) -> Result {
    let command: ResolveIbService = call.read()?;
    let context = call.context(command.id)?;
    let entered = context.enter()?;
    let calls = entered.lock(call.sleep);
    calls.resolve_ib_service(command.ibs)
}
