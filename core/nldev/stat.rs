// SPDX-License-Identifier: GPL-2.0

//! Commands of counters: `rdma statistic`.
//!
//! | requested | reply |
//! |---|---|
//! | a port only | the hardware counters of the port, including its queue pairs' counters |
//! | queue pairs | their counters, or the binding mode of a port |
//! | memory regions | the driver's counters of each region |
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings as c,
    net::netlink::{Dump, Nested, Writer},
};
use rdma::core::{counter::CounterMode, device::Registered, restrack::Owner, Counter, Device};

use super::{
    command::{Command, Query},
    dev::handle_of,
    put::hw_counter,
    res::{self, Entry, Kind},
};
use crate::{counters, restrack, sysfs};

/// The commands. Replies to STAT_DEL have the command STAT_SET, as in the C core.
pub(super) const COMMANDS: &[Command] = &[
    Command::get_and_dump(c::RDMA_NLDEV_CMD_STAT_GET, get, list),
    Command::get(c::RDMA_NLDEV_CMD_STAT_GET_STATUS, get_status),
    Command::get(c::RDMA_NLDEV_CMD_STAT_SET, set)
        .for_admins()
        .strict(),
    Command::get(c::RDMA_NLDEV_CMD_STAT_DEL, delete)
        .answered_as(c::RDMA_NLDEV_CMD_STAT_SET)
        .for_admins()
        .strict(),
];

/// Counters of queue pairs.
const COUNTER: Kind = Kind {
    op: c::RDMA_NLDEV_CMD_STAT_GET,
    kind: c::RDMA_RESTRACK_COUNTER,
    attrs: [
        c::RDMA_NLDEV_ATTR_STAT_COUNTER,
        c::RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY,
        c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
    ],
    per_port: true,
    fill: counter,
};

/// Counters of memory regions.
const MR: Kind = Kind {
    op: c::RDMA_NLDEV_CMD_STAT_GET,
    kind: c::RDMA_RESTRACK_MR,
    attrs: res::MR,
    per_port: false,
    fill: mr,
};

/// The kind of objects whose counters are requested. `None` for ports.
fn of_what(query: &Query<'_>) -> Option<u32> {
    query.attrs.u32(c::RDMA_NLDEV_ATTR_STAT_RES)
}

fn get(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    match of_what(query) {
        None => port_counters(query, writer),
        Some(c::RDMA_NLDEV_ATTR_RES_QP) => {
            match query.attrs.has(c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
                true => res::get_one(query, &COUNTER, writer),
                false => get_mode(query, writer),
            }
        }
        Some(c::RDMA_NLDEV_ATTR_RES_MR) => res::get_one(query, &MR, writer),
        Some(_) => Err(EINVAL),
    }
}

fn list(query: &Query<'_>, dump: &mut Dump<'_>) -> Result {
    match of_what(query) {
        Some(c::RDMA_NLDEV_ATTR_RES_QP) => res::list_all(query, &COUNTER, dump),
        Some(c::RDMA_NLDEV_ATTR_RES_MR) => res::list_all(query, &MR, dump),
        _ => Err(EINVAL),
    }
}

/// The device and the port in the request.
///
/// # Errors
///
/// `EINVAL` if one is missing.
fn device_and_port(query: &Query<'_>) -> Result<(Registered, u32)> {
    if !query.attrs.has(c::RDMA_NLDEV_ATTR_PORT_INDEX) {
        return Err(EINVAL);
    }
    let device = query.device()?;
    let port = query.port(&device)?.ok_or(EINVAL)?;
    Ok((device, port))
}

/// Adds the device and the port.
fn port_of(device: &Device, port: u32, writer: &mut Writer<'_>) -> Result {
    handle_of(device, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, port)
}

fn port_counters(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let (device, port) = device_and_port(query)?;
    if !device.has_port_stats() {
        return Err(EINVAL);
    }
    let stats = sysfs::counters_of(&device, port).ok_or(EINVAL)?;
    port_of(&device, port, writer)?;
    let mut locked = stats.lock(query.sleep);
    let got = stats.driver_update(&device, &mut locked, 0, query.sleep);
    let got = got.map_err(|_| EINVAL)?.min(stats.count());
    let got = u32::try_from(got).unwrap_or(0);
    let table = c::RDMA_NLDEV_ATTR_STAT_HWCOUNTERS;
    writer.nest(table, Nested::Flagged, |writer| {
        for nth in (0..got).filter(|&nth| stats.is_enabled(nth)) {
            let of_queue_pairs = counters::total(&device, port, nth, query.sleep);
            let value = locked.value(nth).wrapping_add(of_queue_pairs);
            hw_counter(writer, stats.name(nth).unwrap_or(c""), value)?;
        }
        Ok(())
    })
}

/// Writes the binding mode of a port.
fn get_mode(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    if !query.attrs.has(c::RDMA_NLDEV_ATTR_STAT_MODE) {
        return Err(EINVAL);
    }
    let (device, port) = device_and_port(query)?;
    let mode = counters::mode(&device, port)?;
    port_of(&device, port, writer)?;
    writer.u32(c::RDMA_NLDEV_ATTR_STAT_MODE, mode.mode.number())?;
    let CounterMode::Auto(mask) = mode.mode else {
        return Ok(());
    };
    writer.u32(c::RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK, mask)?;
    let optional = mode.with_optional.into();
    writer.u8(c::RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED, optional)
}

/// Writes the optional counters of a port, and whether they are enabled.
fn get_status(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let (device, port) = device_and_port(query)?;
    let stats = sysfs::counters_of(&device, port).ok_or(EINVAL)?;
    port_of(&device, port, writer)?;
    let _locked = stats.lock(query.sleep);
    let table = c::RDMA_NLDEV_ATTR_STAT_HWCOUNTERS;
    writer.nest(table, Nested::Flagged, |writer| {
        for nth in stats.numbers() {
            let entry = c::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY;
            writer.nest(entry, Nested::Flagged, |writer| {
                let name = stats.name(nth).unwrap_or(c"");
                writer.text(c::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)?;
                writer.u32(c::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX, nth)?;
                if !stats.is_optional(nth) {
                    return Ok(());
                }
                let on = stats.is_enabled(nth).into();
                writer.u8(c::RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC, on)
            })?;
        }
        Ok(())
    })
}

/// Sets the binding mode of a port, binds a queue pair, or enables optional counters.
fn set(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let (device, port) = device_and_port(query)?;
    let attrs = &query.attrs;
    let mode = attrs.u32(c::RDMA_NLDEV_ATTR_STAT_MODE);
    let switches = attrs.has(c::RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    if mode.is_none() && !switches {
        return Err(EINVAL);
    }
    port_of(&device, port, writer)?;
    if let Some(mode) = mode {
        set_mode(query, &device, port, mode, writer)?;
    }
    if switches {
        set_enabled(query, &device, port)?;
    }
    Ok(())
}

/// Whether it is about queue pairs: only these are bound to counters.
fn is_of_qps(query: &Query<'_>) -> bool {
    of_what(query) == Some(c::RDMA_NLDEV_ATTR_RES_QP)
}

fn set_mode(
    query: &Query<'_>,
    device: &Device,
    port: u32,
    mode: u32,
    writer: &mut Writer<'_>,
) -> Result {
    if !is_of_qps(query) {
        return Err(EINVAL);
    }
    let attrs = &query.attrs;
    if mode == c::RDMA_COUNTER_MODE_AUTO {
        let mask = attrs.u32(c::RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK);
        let optional = attrs.u8(c::RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED);
        let (mask, optional) = (mask.unwrap_or(0), optional.unwrap_or(0) != 0);
        let set = counters::set_auto(device, port, mask, optional);
        if set == Err(EBUSY) {
            let why = c"Modifying auto mode is not allowed when there is a bound QP";
            query.request.set_extack_msg(why);
        }
        return set;
    }
    let qp_num = attrs.u32(c::RDMA_NLDEV_ATTR_RES_LQPN).ok_or(EINVAL)?;
    let number = match attrs.u32(c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID) {
        Some(number) => {
            counters::bind(device, port, qp_num, number, query.sleep)?;
            number
        }
        None => counters::bind_new(device, port, qp_num, query.sleep)?,
    };
    let told = bound(qp_num, number, writer);
    if told.is_err() {
        // The sender would not get the ID of the counter.
        let _ = counters::unbind(device, port, qp_num, number, query.sleep);
    }
    told
}

/// Adds the queue pair and the ID of its counter.
fn bound(qp_num: u32, number: u32, writer: &mut Writer<'_>) -> Result {
    writer.u32(c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID, number)?;
    writer.u32(c::RDMA_NLDEV_ATTR_RES_LQPN, qp_num)
}

/// Enables the listed optional counters and disables the others.
fn set_enabled(query: &Query<'_>, device: &Device, port: u32) -> Result {
    let stats = sysfs::counters_of(device, port).ok_or(EINVAL)?;
    let listed = || query.attrs.each_in(c::RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
    let mut wanted = KVec::new();
    for nth in listed().ok_or(EINVAL)? {
        let nth = u32::from_ne_bytes(nth.try_into().map_err(|_| EINVAL)?);
        if !stats.is_optional(nth) {
            return Err(EINVAL);
        }
        wanted.push(nth, GFP_KERNEL)?;
    }
    for nth in stats.numbers().filter(|&nth| stats.is_optional(nth)) {
        let on = wanted.contains(&nth);
        counters::set_enabled(device, &stats, nth, on, query.sleep)?;
    }
    Ok(())
}

/// Unbinds a queue pair.
fn delete(query: &Query<'_>, writer: &mut Writer<'_>) -> Result {
    let attrs = &query.attrs;
    let number = attrs.u32(c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID);
    let qp_num = attrs.u32(c::RDMA_NLDEV_ATTR_RES_LQPN);
    let (Some(number), Some(qp_num), true) = (number, qp_num, is_of_qps(query)) else {
        return Err(EINVAL);
    };
    let (device, port) = device_and_port(query)?;
    port_of(&device, port, writer)?;
    bound(qp_num, number, writer)?;
    counters::unbind(&device, port, qp_num, number, query.sleep)
}

/// Writes a counter of queue pairs.
fn counter(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Counter(counter)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    // If the update fails, the last known values are used.
    let _ = counter.driver_update(entry.query.sleep);
    writer.u32(c::RDMA_NLDEV_ATTR_PORT_INDEX, counter.port())?;
    writer.u32(c::RDMA_NLDEV_ATTR_STAT_COUNTER_ID, counter.number())?;
    counter_mode(entry, counter, writer)?;
    writer.nest(c::RDMA_NLDEV_ATTR_RES_QP, Nested::Flagged, |writer| {
        counter_qps(entry, counter, writer)
    })?;
    let stats = counter.stats();
    let locked = stats.lock(entry.query.sleep);
    let table = c::RDMA_NLDEV_ATTR_STAT_HWCOUNTERS;
    writer.nest(table, Nested::Flagged, |writer| {
        for nth in stats.numbers().filter(|&nth| stats.is_enabled(nth)) {
            let name = stats.name(nth).unwrap_or(c"");
            hw_counter(writer, name, locked.value(nth))?;
        }
        Ok(())
    })
}

/// Adds the criteria of a counter in auto mode.
fn counter_mode(entry: &Entry<'_>, counter: &Counter, writer: &mut Writer<'_>) -> Result {
    let mode = counter.mode();
    writer.u32(c::RDMA_NLDEV_ATTR_STAT_MODE, mode.number())?;
    if mode.mask() & c::RDMA_COUNTER_MASK_QP_TYPE != 0 {
        writer.u8(c::RDMA_NLDEV_ATTR_RES_TYPE, counter.qp_type() as u8)?;
    }
    if mode.mask() & c::RDMA_COUNTER_MASK_PID != 0 {
        res::owner(entry.res, writer)?;
    }
    Ok(())
}

/// Adds the queue pairs of a counter.
fn counter_qps(entry: &Entry<'_>, counter: &Counter, writer: &mut Writer<'_>) -> Result {
    for res in restrack::list(entry.device, c::RDMA_RESTRACK_QP, 0, true) {
        let Some(Owner::Qp(qp)) = res.owner() else {
            continue;
        };
        if qp.counter_is(counter) {
            let one = c::RDMA_NLDEV_ATTR_RES_QP_ENTRY;
            writer.nest(one, Nested::Flagged, |writer| {
                writer.u32(c::RDMA_NLDEV_ATTR_RES_LQPN, qp.qp_num())
            })?;
        }
    }
    Ok(())
}

/// Writes the counters of a memory region.
fn mr(entry: &Entry<'_>, writer: &mut Writer<'_>) -> Result {
    let Some(Owner::Mr(mr)) = entry.res.owner() else {
        return Err(EINVAL);
    };
    writer.u32(c::RDMA_NLDEV_ATTR_RES_MRN, entry.res.id())?;
    res::optional(mr.driver_fill_stat(writer))
}
