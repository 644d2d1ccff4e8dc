// SPDX-License-Identifier: GPL-2.0

//! The local service (such as ibacm): a daemon in user space that resolves paths in place of the SA.
//!
//! Without a listener, or a response in time, the query is sent to the SA.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`, `RDMA_NL_LS`.

use core::sync::atomic::{AtomicU32, Ordering};

use kernel::{new_delayed_work, prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{self as c, sa_path_rec},
    delayed,
    gfp::Gfp,
    net::{
        netlink::{Message, Policy, Request, Writer},
        ns::NetNamespace,
    },
    sleepable::SleepableWork,
    timer::now_ns,
    work::{GlobalQueue, InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{core::mad::send::SendFlags, Gid, MaySleep};

use super::{
    query,
    record::{unpack_path, PATH_BYTES},
    state::{Administration, NetlinkQuery, Query, SaPort, Service, ADMINISTRATION},
};
use crate::{addr::ls, netlink};

/// Timeout of a request to user space, in milliseconds.
static TIMEOUT_MS: AtomicU32 = AtomicU32::new(2000);
/// Limits of the timeout.
const TIMEOUTS_MS: (u32, u32) = (100, 200_000);
/// Number of paths taken from a response.
const MAX_PATHS: usize = 3;

/// Path attributes that are sent where the query's component mask has them: bit and netlink attribute.
const MEMBERS: [(u32, u32, FieldReader); 6] = [
    (0, c::LS_NLA_TYPE_SERVICE_ID, |path| {
        Value::U64(u64::from_be(path.service_id))
    }),
    (2, c::LS_NLA_TYPE_DGID, |path| Value::Gid(path.dgid)),
    (3, c::LS_NLA_TYPE_SGID, |path| Value::Gid(path.sgid)),
    (10, c::LS_NLA_TYPE_TCLASS, |path| {
        Value::U8(path.traffic_class)
    }),
    (13, c::LS_NLA_TYPE_PKEY, |path| {
        Value::U16(u16::from_be(path.pkey))
    }),
    (14, c::LS_NLA_TYPE_QOS_CLASS, |path| {
        Value::U16(u16::from_be(path.qos_class))
    }),
];

/// Length of the header of a path in a response: flags, and four reserved bytes.
const PATH_HEAD: usize = 8;

/// Policy of a response's attributes.
static POLICY: [Policy; c::LS_NLA_TYPE_MAX as usize] = {
    let mut table = [const { Policy::NONE }; c::LS_NLA_TYPE_MAX as usize];
    let record = (PATH_HEAD + PATH_BYTES) as u16;
    table[c::LS_NLA_TYPE_PATH_RECORD as usize] = Policy::new(c::NLA_BINARY, record);
    table[c::LS_NLA_TYPE_TIMEOUT as usize] = Policy::new(c::NLA_U32, 0);
    table
};

/// The component mask's bit for reversible paths.
const REVERSIBLE: u32 = 11;

type FieldReader = fn(&sa_path_rec) -> Value;

/// Value of a path attribute, in host byte order.
enum Value {
    U8(u8),
    U16(u16),
    U64(u64),
    Gid(c::ib_gid),
}

fn put(writer: &mut Writer<'_>, attr: u32, value: &Value) -> Result {
    let attr = attr | c::RDMA_NLA_F_MANDATORY;
    match value {
        Value::U8(value) => writer.bytes(attr, &[*value]),
        Value::U16(value) => writer.bytes(attr, &value.to_ne_bytes()),
        Value::U64(value) => writer.bytes(attr, &value.to_ne_bytes()),
        Value::Gid(gid) => writer.bytes(attr, &Gid::from_raw(gid).0),
    }
}

/// Whether a component mask (big endian) has a bit.
fn has(mask: u64, bit: u32) -> bool {
    u64::from_be(mask).checked_shr(bit).unwrap_or(0) & 1 != 0
}

/// The header of a request, `rdma_ls_resolve_header`: device, port, use of the path.
fn header_of(query: &Query, path_use: u8) -> [u8; c::LS_DEVICE_NAME_MAX as usize + 2] {
    let mut bytes = [0; c::LS_DEVICE_NAME_MAX as usize + 2];
    let name = query.port.device.name();
    let name = name.to_bytes();
    let most = (c::LS_DEVICE_NAME_MAX as usize).saturating_sub(1);
    bytes
        .iter_mut()
        .zip(name.iter().take(most))
        .for_each(|(to, from)| *to = *from);
    // The header has 8 bits for the port number.
    let end = [query.port.port_num as u8, path_use];
    if let Some(place) = bytes.last_chunk_mut() {
        *place = end;
    }
    bytes
}

/// Writes a request.
fn write(
    query: &Query,
    path: &sa_path_rec,
    (mask, path_use, seq): (u64, u8, u32),
    flags: Gfp<'_>,
) -> Result<Message> {
    let kind = netlink::message_kind(c::RDMA_NL_LS, c::RDMA_NL_LS_OP_RESOLVE);
    Message::request(kind, seq, flags, |writer| {
        writer.header(&header_of(query, path_use))?;
        for (bit, attr, member) in MEMBERS {
            if has(mask, bit) {
                put(writer, attr, &member(path))?;
            }
        }
        Ok(())
    })
}

/// Schedules the work for the first deadline.
fn arm(all: &Administration) {
    let (Some(first), Some(service)) = (all.netlink_queries.first(), &all.service) else {
        return;
    };
    let left_ms = first.until.saturating_sub(now_ns()).div_ceil(1_000_000);
    let left_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
    let delay = kernel::time::msecs_to_jiffies(left_ms);
    WORKERS.with(|workers| delayed::enqueue(workers, service, delay));
}

/// Adds a query to those sent to user space; returns its netlink sequence number.
fn add(query: &Arc<Query>) -> Result<u32> {
    let mut all = ADMINISTRATION.lock();
    let seq = all.next_seq.wrapping_add(1);
    let timeout_ms = u64::from(TIMEOUT_MS.load(Ordering::Relaxed));
    let pending = NetlinkQuery {
        query: query.clone(),
        seq,
        until: now_ns().saturating_add(timeout_ms.saturating_mul(1_000_000)),
    };
    all.netlink_queries.push(pending, GFP_ATOMIC)?;
    all.next_seq = seq;
    if all.netlink_queries.len() == 1 {
        arm(&all);
    }
    Ok(seq)
}

/// Sends a query to user space if there is a listener, else to the SA.
///
/// # Errors
///
/// As for [`query::send`].
pub(super) fn resolve(
    query: &Arc<Query>,
    path: &sa_path_rec,
    mask: u64,
    flags: &SendFlags<'_>,
) -> Result {
    if !netlink::has_listeners(c::RDMA_NL_GROUP_LS) || !MEMBERS.iter().any(|it| has(mask, it.0)) {
        return query::send(query);
    }
    query::add(query)?;
    let all_ways = has(mask, REVERSIBLE) && path.reversible != 0;
    let path_use = match all_ways {
        true => c::LS_RESOLVE_PATH_USE_ALL,
        false => c::LS_RESOLVE_PATH_USE_UNIDIRECTIONAL,
    } as u8;
    query.state.lock().path_use = path_use;
    let sent = add(query).and_then(|seq| {
        let request = write(query, path, (mask, path_use, seq), flags.gfp())?;
        netlink::multicast_request(
            NetNamespace::init(),
            request,
            c::RDMA_NL_GROUP_LS,
            flags.gfp(),
        )
    });
    if sent.is_ok() {
        return Ok(());
    }
    // The response may have arrived already.
    let taken = ADMINISTRATION
        .lock()
        .take_netlink_query(|one| Arc::ptr_eq(&one.query, query));
    if taken.is_none() {
        return Ok(());
    }
    query::post(query).inspect_err(|_| query::forget(query))
}

/// Cancels a query that was sent to user space; returns whether it was.
pub(super) fn cancel(query: &Arc<Query>) -> bool {
    let mut all = ADMINISTRATION.lock();
    let mut pending = all.netlink_queries.iter();
    let place = pending.position(|one| Arc::ptr_eq(&one.query, query));
    // An earlier deadline than all others makes it the first.
    let Some(first) = place.and_then(|nth| all.netlink_queries.move_to_front(nth)) else {
        return false;
    };
    query.state.lock().canceled = true;
    first.until = now_ns();
    arm(&all);
    true
}

/// Sends a query to the SA after user space has not answered it; on failure it completes with `failed`.
fn fall_back(query: &Query, failed: Error, sleep: &MaySleep) {
    let canceled = query.state.lock().canceled;
    if canceled {
        query::finish(query, Err(EINTR), sleep);
    } else if query::post(query).is_err() {
        query::finish(query, Err(failed), sleep);
    }
}

impl SleepableWork for Service {
    fn run(_this: Arc<Self>, sleep: &MaySleep) {
        loop {
            let expired = {
                let mut all = ADMINISTRATION.lock();
                let expired = all.take_netlink_query(|one| one.until <= now_ns());
                if expired.is_none() {
                    arm(&all);
                }
                expired
            };
            match expired {
                Some(pending) => fall_back(&pending.query, EINTR, sleep),
                None => return,
            }
        }
    }
}

/// Completes the queries of a port that is being closed.
pub(super) fn end(port: &Arc<SaPort>, sleep: &MaySleep) {
    loop {
        let taken = {
            let mut all = ADMINISTRATION.lock();
            all.take_netlink_query(|one| Arc::ptr_eq(&one.query.port, port))
        };
        match taken {
            Some(pending) => query::finish(&pending.query, Err(EINTR), sleep),
            None => return,
        }
    }
}

/// Path flags required by a use of the path.
fn needed_flags(path_use: u8) -> u32 {
    match u32::from(path_use) {
        c::LS_RESOLVE_PATH_USE_UNIDIRECTIONAL => c::IB_PATH_PRIMARY | c::IB_PATH_OUTBOUND,
        c::LS_RESOLVE_PATH_USE_ALL => c::IB_PATH_PRIMARY,
        _ => c::IB_PATH_PRIMARY | c::IB_PATH_GMP | c::IB_PATH_BIDIRECTIONAL,
    }
}

/// The paths of a response that are suitable for the use.
fn paths_of(answer: &Request<'_>, path_use: u8) -> ([sa_path_rec; MAX_PATHS], usize) {
    let needed = needed_flags(path_use);
    let mut paths: [sa_path_rec; MAX_PATHS] = pin_init::zeroed();
    let mut count = 0;
    for (kind, bytes) in answer.each() {
        let Some(flags) = bytes.first_chunk() else {
            continue;
        };
        let flags = u32::from_ne_bytes(*flags);
        let packed: Option<&[u8; PATH_BYTES]> =
            bytes.get(PATH_HEAD..).and_then(|rest| rest.first_chunk());
        let is_path = kind == c::LS_NLA_TYPE_PATH_RECORD && flags & needed == needed;
        if let (true, Some(packed), Some(place)) = (is_path, packed, paths.get_mut(count)) {
            *place = unpack_path(&mut packed.clone());
            place.flags = flags;
            count = count.saturating_add(1);
        }
    }
    (paths, count)
}

/// Handles a response (`RDMA_NL_LS_OP_RESOLVE`). One that matches no query is ignored.
fn resolved(answer: &Request<'_>, sleep: &MaySleep) -> Result {
    if answer.flags() & c::NLM_F_REQUEST != 0 {
        return Err(EPERM);
    }
    let taken = {
        let mut all = ADMINISTRATION.lock();
        let seq = answer.seq();
        all.take_netlink_query(|one| one.seq == seq && !one.query.state.lock().canceled)
    };
    let Some(pending) = taken else {
        return Ok(());
    };
    let query = &pending.query;
    let is_error = answer.flags() & c::RDMA_NL_LS_F_ERR != 0;
    if is_error || answer.attrs(&POLICY, false).is_err() {
        fall_back(query, EIO, sleep);
        return Ok(());
    }
    let path_use = query.state.lock().path_use;
    let (mut paths, count) = paths_of(answer, path_use);
    match paths.get_mut(..count) {
        Some(paths) if count != 0 => {
            query.state.lock().answered = true;
            query.handler.resolved(query, paths, sleep);
            query::finish(query, Ok(()), sleep);
        }
        _ => query::finish(query, Err(EIO), sleep),
    }
    Ok(())
}

/// Sets the timeout (`RDMA_NL_LS_OP_SET_TIMEOUT`).
fn set_timeout(request: &Request<'_>, _sleep: &MaySleep) -> Result {
    if request.flags() & c::NLM_F_REQUEST == 0 {
        return Err(EPERM);
    }
    let Ok(attrs) = request.attrs(&POLICY, false) else {
        return Ok(());
    };
    let Some(wanted) = attrs.u32(c::LS_NLA_TYPE_TIMEOUT) else {
        return Ok(());
    };
    let (least, most) = TIMEOUTS_MS;
    // The attribute is signed.
    let wanted = u32::try_from(wanted as i32).unwrap_or(0).clamp(least, most);
    let mut all = ADMINISTRATION.lock();
    let before = TIMEOUT_MS.swap(wanted, Ordering::Relaxed);
    for pending in all.netlink_queries.iter_mut() {
        let longer = u64::from(wanted).saturating_mul(1_000_000);
        let shorter = u64::from(before).saturating_mul(1_000_000);
        pending.until = pending.until.saturating_add(longer).saturating_sub(shorter);
    }
    arm(&all);
    Ok(())
}

/// Operations of user space; they require CAP_NET_ADMIN.
const OPERATIONS: &[(u32, ls::Doit)] = &[
    (c::RDMA_NL_LS_OP_RESOLVE, resolved),
    (c::RDMA_NL_LS_OP_SET_TIMEOUT, set_timeout),
];

/// The workqueue for timeouts.
static WORKERS: GlobalQueue = GlobalQueue::new();

/// Keeps the local service enabled until it is dropped, which waits for the work.
pub(super) struct Registration {
    _workers: InstalledQueue,
}

/// Allocates the work for timeouts.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn start(sleep: &MaySleep) -> Result<Registration> {
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
    let queue = OwnedQueue::new(c"ib_nl_sa_wq", flags, 1, sleep)?;
    let service = Arc::pin_init(
        pin_init!(Service {
            work <- new_delayed_work!("sa::Service"),
        }),
        GFP_KERNEL,
    )?;
    let _workers = WORKERS.install(queue);
    ADMINISTRATION.lock().service = Some(service);
    ls::set_operations(OPERATIONS);
    Ok(Registration { _workers })
}

impl Drop for Registration {
    fn drop(&mut self) {
        let service = ADMINISTRATION.lock().service.take();
        if let Some(service) = service {
            delayed::cancel(&service);
        }
    }
}
