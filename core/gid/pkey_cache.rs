// SPDX-License-Identifier: GPL-2.0

//! Reading the cached attributes of a port: P_Key table, LMC, state and subnet prefix.
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::prelude::*;
use kernel_ext::{entry::Out, export::export};
use rdma::core::Device;

use super::{cache, port_cache::Known};

/// Reads the cached attributes of a port.
fn with_port<R>(device: &Device, port: u32, f: impl FnOnce(&Known) -> R) -> Result<R> {
    Ok(cache::of(device, port).ok_or(EINVAL)?.known.with(f))
}

/// Returns an entry of a port's P_Key table. Any context.
///
/// # Errors
///
/// `EINVAL` for an invalid port or index.
#[export]
fn ib_get_cached_pkey(device: &Device, port: u32, index: i32, pkey: Out<'_, u16>) -> Result {
    let found = with_port(device, port, |known| known.pkey(index))?;
    pkey.set(found.ok_or(EINVAL)?);
    Ok(())
}

/// Returns the index of a P_Key in a port's table, regardless of its membership bit. Any context.
///
/// # Errors
///
/// `EINVAL` for an invalid port, `ENOENT` if the table has no such P_Key; the index is then 0xffff.
#[export]
fn ib_find_cached_pkey(device: &Device, port: u32, pkey: u16, index: Out<'_, u16>) -> Result {
    let found = with_port(device, port, |known| known.find_pkey(pkey))?.ok_or(EINVAL)?;
    index.set(found.unwrap_or(u16::MAX));
    found.map(|_| ()).ok_or(ENOENT)
}

/// Returns the LMC of a port. Any context.
///
/// # Errors
///
/// `EINVAL` for an invalid port.
#[export]
fn ib_get_cached_lmc(device: &Device, port: u32, lmc: Out<'_, u8>) -> Result {
    lmc.set(with_port(device, port, |known| known.lmc)?);
    Ok(())
}

/// Returns the state of a port, `enum ib_port_state`. Any context.
///
/// # Errors
///
/// `EINVAL` for an invalid port.
#[export]
fn ib_get_cached_port_state(device: &Device, port: u32, state: Out<'_, u32>) -> Result {
    state.set(with_port(device, port, |known| known.state)?);
    Ok(())
}

/// Returns the subnet prefix of a port, 0 for an invalid port. Any context.
#[export]
fn ib_get_cached_subnet_prefix(device: &Device, port: u32, prefix: Out<'_, u64>) {
    prefix.set(with_port(device, port, |known| known.subnet_prefix).unwrap_or(0));
}
