// SPDX-License-Identifier: GPL-2.0

//! Commands of FRMR pools: `rdma resource … frmr_pools`.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use core::cell::Cell;

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    error::EMSGSIZE,
    net::netlink::{Dump, Nested, Writer},
};
use rdma::core::{frmr::FrmrKey, Device};

use super::{
    command::{kind_of, Command, Query},
    dev::handle_of,
    policy,
};
use crate::memory::frmr_pools::{self, Pool};

/// The commands.
pub(super) const COMMANDS: &[Command] = &[
    Command::dump(c::RDMA_NLDEV_CMD_FRMR_POOLS_GET, list),
    Command::set(c::RDMA_NLDEV_CMD_FRMR_POOLS_SET, set),
];

const PAD: u32 = c::RDMA_NLDEV_ATTR_PAD;

fn list(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    let device = query.device()?;
    let Some(pools) = frmr_pools::list(&device)? else {
        return Ok(());
    };
    let details = query.details();
    // Pools with a kernel vendor key are driver details.
    let shown = |pool: &&_| details || Pool::key(pool).kernel_vendor_key == 0;
    let from = dump.position();
    let next = Cell::new(from);
    let written = dump.message(kind_of(c::RDMA_NLDEV_CMD_FRMR_POOLS_GET), |writer| {
        handle_of(&device, writer)?;
        writer.nest(c::RDMA_NLDEV_ATTR_FRMR_POOLS, Nested::Plain, |writer| {
            let all = pools.iter().map(|pool| &**pool).filter(shown);
            for (nth, pool) in (0..).zip(all).skip_while(|&(nth, _)| nth < from) {
                let entry = c::RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY;
                match writer.nest(entry, Nested::Plain, |writer| fill(pool, writer)) {
                    // It is the first of the next packet.
                    Err(EMSGSIZE) => break,
                    result => result?,
                }
                next.set(nth.saturating_add(1));
            }
            // An empty dump has no message.
            if next.get() == from {
                return Err(ENOENT);
            }
            Ok(())
        })
    });
    dump.set_position(next.get());
    match written {
        Err(ENOENT) => Ok(()),
        result => result,
    }
}

fn fill(pool: &Pool, writer: &mut Writer<'_>) -> Result {
    let key = c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY;
    writer.nest(key, Nested::Flagged, |writer| fill_key(pool.key(), writer))?;
    let usage = pool.usage();
    writer.u32(c::RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES, usage.waiting)?;
    let max = u64::from(usage.max_in_use);
    writer.u64(c::RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE, max, PAD)?;
    let in_use = u64::from(usage.in_use);
    writer.u64(c::RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE, in_use, PAD)?;
    writer.u32(c::RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES, usage.pinned)
}

fn fill_key(key: &FrmrKey, writer: &mut Writer<'_>) -> Result {
    let access = key.access_flags as u32;
    let blocks = key.dma_blocks as u64;
    writer.u8(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS, key.ats.into())?;
    writer.u32(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS, access)?;
    let attr = c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY;
    writer.u64(attr, key.vendor_key, PAD)?;
    let attr = c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS;
    writer.u64(attr, blocks, PAD)?;
    if key.kernel_vendor_key == 0 {
        return Ok(());
    }
    let attr = c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY;
    writer.u64(attr, key.kernel_vendor_key, PAD)
}

fn set(query: &Query<'_>) -> Result {
    let device = query.device()?;
    let attrs = &query.attrs;
    if let Some(period) = attrs.u32(c::RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD) {
        return frmr_pools::set_period(&device, period);
    }
    match attrs.u32(c::RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES) {
        Some(count) => set_pinned(query, &device, count),
        None => Ok(()),
    }
}

fn set_pinned(query: &Query<'_>, device: &Device, count: u32) -> Result {
    let key = c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY;
    let request = query.request;
    let attrs = request.attrs_in(&query.attrs, key, &policy::TABLE)?;
    let attrs = attrs.ok_or(EINVAL)?;
    if attrs.has(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY) {
        return Err(EINVAL);
    }
    let ats = attrs.u8(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS);
    let access = attrs.u32(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS);
    let vendor = attrs.u64(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY);
    let blocks = attrs.u64(c::RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS);
    let key = FrmrKey {
        // The key has one bit for it.
        ats: ats.unwrap_or(0) & 1 != 0,
        access_flags: access.unwrap_or(0) as i32,
        vendor_key: vendor.unwrap_or(0),
        kernel_vendor_key: 0,
        dma_blocks: blocks.unwrap_or(0) as usize,
    };
    frmr_pools::set_pinned(device, key, count, query.sleep)
}
