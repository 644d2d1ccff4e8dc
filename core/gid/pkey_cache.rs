// SPDX-License-Identifier: GPL-2.0

//! Asking for what the core remembers of a port: the P_Key table, the LMC, the state and the subnet's prefix.
//!
//! C header: `include/rdma/ib_cache.h`.

use kernel::prelude::*;
use kernel_ext::{door::Out, export::export};
use rdma::core::Device;

use super::{cache, port_cache::Known};

/// Looks at what is remembered of a port.
fn with_port<R>(device: &Device, port: u32, f: impl FnOnce(&Known) -> R) -> Result<R> {
    Ok(cache::of(device, port).ok_or(EINVAL)?.known.with(f))
}

/// Returns an entry of a port's P_Key table. Any context.
///
/// # Errors
///
/// `EINVAL` for a port or an index that there is not.
#[export]
fn ib_get_cached_pkey(device: &Device, port: u32, index: i32, pkey: Out<'_, u16>) -> Result {
    let found = with_port(device, port, |known| known.pkey(index))?;
    pkey.set(found.ok_or(EINVAL)?);
    Ok(())
}

/// Returns the index of a P_Key in a port's table; its membership bit does not matter. Any context.
///
/// # Errors
///
/// `EINVAL` for a port that there is not, `ENOENT` if the table has no such P_Key; the index is 0xffff then.
#[export]
fn ib_find_cached_pkey(device: &Device, port: u32, pkey: u16, index: Out<'_, u16>) -> Result {
    let found = with_port(device, port, |known| known.find_pkey(pkey))?.ok_or(EINVAL)?;
    index.set(found.unwrap_or(u16::MAX));
    found.map(|_| ()).ok_or(ENOENT)
}

/// Returns how many low bits of a port's LID are for paths. Any context.
///
/// # Errors
///
/// `EINVAL` for a port that there is not.
#[export]
fn ib_get_cached_lmc(device: &Device, port: u32, lmc: Out<'_, u8>) -> Result {
    lmc.set(with_port(device, port, |known| known.lmc)?);
    Ok(())
}

/// Returns the state of a port, `enum ib_port_state`. Any context.
///
/// # Errors
///
/// `EINVAL` for a port that there is not.
#[export]
fn ib_get_cached_port_state(device: &Device, port: u32, state: Out<'_, u32>) -> Result {
    state.set(with_port(device, port, |known| known.state)?);
    Ok(())
}

/// Returns the prefix of a port's subnet, 0 for a port that there is not. Any context.
#[export]
fn ib_get_cached_subnet_prefix(device: &Device, port: u32, prefix: Out<'_, u64>) {
    prefix.set(with_port(device, port, |known| known.subnet_prefix).unwrap_or(0));
}
