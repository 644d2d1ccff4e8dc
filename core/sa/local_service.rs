// SPDX-License-Identifier: GPL-2.0

//! The local service: a program of user space that knows paths is asked before the subnet administrator.
//!
//! Where nobody listens, or the service has no answer in time, the administrator is asked.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`, `RDMA_NL_LS`.

use core::sync::atomic::{AtomicU32, Ordering};

use kernel::{new_delayed_work, prelude::*, sync::Arc, workqueue::WorkItem};
use kernel_ext::{
    bindings::{self as c, sa_path_rec},
    delayed,
    gfp::Gfp,
    net::{
        netlink::{Policy, Reply, Request, Writer},
        ns::NetNamespace,
    },
    timer::now_ns,
    work::{OwnedQueue, QueueFlags},
};
use rdma::{core::mad::send::SendFlags, Gid, MaySleep};

use super::{
    query,
    record::{unpack_path, PATH_BYTES},
    state::{Administration, Asked, Query, SaPort, Service, ADMINISTRATION},
};
use crate::{addr::ls, netlink};

/// How long an answer is awaited, in milliseconds.
static TIMEOUT_MS: AtomicU32 = AtomicU32::new(2000);
/// How short and how long that may be.
const TIMEOUTS_MS: (u32, u32) = (100, 200_000);
/// How many paths of an answer are taken.
const MAX_PATHS: usize = 3;

/// The members of a path that are told of, where the mask of the question has them: the bit, the attribute.
const MEMBERS: [(u32, u32, Member); 6] = [
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

/// The flags of a path in an answer and four bytes of nothing, which stand in front of it.
const PATH_HEAD: usize = 8;

/// What attributes of an answer may be.
static POLICY: [Policy; c::LS_NLA_TYPE_MAX as usize] = {
    let mut table = [const { Policy::NONE }; c::LS_NLA_TYPE_MAX as usize];
    let record = (PATH_HEAD + PATH_BYTES) as u16;
    table[c::LS_NLA_TYPE_PATH_RECORD as usize] = Policy::new(c::NLA_BINARY, record);
    table[c::LS_NLA_TYPE_TIMEOUT as usize] = Policy::new(c::NLA_U32, 0);
    table
};

/// The bit of the mask that says whether the path has to lead back, too.
const REVERSIBLE: u32 = 11;

type Member = fn(&sa_path_rec) -> Value;

/// A member, in the processor's order of bytes.
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

/// Whether a mask, as C has it, has a bit.
fn has(mask: u64, bit: u32) -> bool {
    u64::from_be(mask).checked_shr(bit).unwrap_or(0) & 1 != 0
}

/// What stands in front of the attributes: the device, the port, how the path is used.
fn header_of(query: &Query, path_use: u8) -> [u8; c::LS_DEVICE_NAME_MAX as usize + 2] {
    let mut bytes = [0; c::LS_DEVICE_NAME_MAX as usize + 2];
    let name = query.port.device.name();
    let name = name.to_bytes();
    let most = (c::LS_DEVICE_NAME_MAX as usize).saturating_sub(1);
    bytes
        .iter_mut()
        .zip(name.iter().take(most))
        .for_each(|(to, from)| *to = *from);
    // The header has 8 bits for the port.
    let end = [query.port.port_num as u8, path_use];
    if let Some(place) = bytes.last_chunk_mut() {
        *place = end;
    }
    bytes
}

/// Writes the question for user space.
fn write(
    query: &Query,
    path: &sa_path_rec,
    (mask, path_use, seq): (u64, u8, u32),
    flags: Gfp<'_>,
) -> Result<Reply> {
    let kind = netlink::message_kind(c::RDMA_NL_LS, c::RDMA_NL_LS_OP_RESOLVE);
    Reply::question(kind, seq, flags, |writer| {
        writer.header(&header_of(query, path_use))?;
        for (bit, attr, member) in MEMBERS {
            if has(mask, bit) {
                put(writer, attr, &member(path))?;
            }
        }
        Ok(())
    })
}

/// Lets the service's work run when the first time limit is reached.
fn arm(all: &Administration) {
    let (Some(first), Some(service)) = (all.asked.first(), &all.service) else {
        return;
    };
    let left_ms = first.until.saturating_sub(now_ns()).div_ceil(1_000_000);
    let left_ms = u32::try_from(left_ms).unwrap_or(u32::MAX);
    delayed::enqueue(
        &service.queue,
        service,
        kernel::time::msecs_to_jiffies(left_ms),
    );
}

/// Adds a question to those that user space was asked; returns its number there.
fn add(query: &Arc<Query>) -> Result<u32> {
    let mut all = ADMINISTRATION.lock();
    let seq = all.next_seq.wrapping_add(1);
    let timeout_ms = u64::from(TIMEOUT_MS.load(Ordering::Relaxed));
    let asked = Asked {
        query: query.clone(),
        seq,
        until: now_ns().saturating_add(timeout_ms.saturating_mul(1_000_000)),
    };
    all.asked.push(asked, GFP_ATOMIC)?;
    all.next_seq = seq;
    if all.asked.len() == 1 {
        arm(&all);
    }
    Ok(seq)
}

/// Asks user space, if somebody listens there, else the administrator.
///
/// # Errors
///
/// As asking the administrator.
pub(super) fn ask(
    query: &Arc<Query>,
    path: &sa_path_rec,
    mask: u64,
    flags: &SendFlags<'_>,
) -> Result {
    if !netlink::has_listeners(c::RDMA_NL_GROUP_LS) || !MEMBERS.iter().any(|it| has(mask, it.0)) {
        return query::ask(query);
    }
    query::add(query)?;
    let all_ways = has(mask, REVERSIBLE) && path.reversible != 0;
    let path_use = match all_ways {
        true => c::LS_RESOLVE_PATH_USE_ALL,
        false => c::LS_RESOLVE_PATH_USE_UNIDIRECTIONAL,
    } as u8;
    query.state.lock().path_use = path_use;
    let told = add(query).and_then(|seq| {
        let question = write(query, path, (mask, path_use, seq), flags.gfp())?;
        netlink::ask(
            NetNamespace::init(),
            question,
            c::RDMA_NL_GROUP_LS,
            flags.gfp(),
        )
    });
    if told.is_ok() {
        return Ok(());
    }
    // It may have been answered already.
    let taken = ADMINISTRATION
        .lock()
        .take_asked(|one| Arc::ptr_eq(&one.query, query));
    if taken.is_none() {
        return Ok(());
    }
    query::send(query).inspect_err(|_| query::forget(query))
}

/// Cancels a question that user space was asked; says whether it was.
pub(super) fn cancel(query: &Arc<Query>) -> bool {
    let mut all = ADMINISTRATION.lock();
    let Some(mut asked) = all.take_asked(|one| Arc::ptr_eq(&one.query, query)) else {
        return false;
    };
    query.state.lock().canceled = true;
    asked.until = now_ns();
    // There is room: it was taken from there. The first one's time limit is the earliest.
    let _ = all.asked.insert_within_capacity(0, asked);
    arm(&all);
    true
}

/// User space has no answer: the administrator is asked. `failed` is told where that fails.
fn fall_back(query: &Query, failed: Error, sleep: &MaySleep) {
    let canceled = query.state.lock().canceled;
    if canceled {
        query::finish(query, Err(EINTR), sleep);
    } else if query::send(query).is_err() {
        query::finish(query, Err(failed), sleep);
    }
}

impl WorkItem for Service {
    type Pointer = Arc<Self>;

    fn run(_this: Arc<Self>) {
        // SAFETY: Works of the queue run in process context.
        let sleep = &unsafe { MaySleep::assume() };
        loop {
            let expired = {
                let mut all = ADMINISTRATION.lock();
                let expired = all.take_asked(|one| one.until <= now_ns());
                if expired.is_none() {
                    arm(&all);
                }
                expired
            };
            match expired {
                Some(asked) => fall_back(&asked.query, EINTR, sleep),
                None => return,
            }
        }
    }
}

/// Ends the questions of a port that goes.
pub(super) fn end(port: &Arc<SaPort>, sleep: &MaySleep) {
    loop {
        let taken = {
            let mut all = ADMINISTRATION.lock();
            all.take_asked(|one| Arc::ptr_eq(&one.query.port, port))
        };
        match taken {
            Some(asked) => query::finish(&asked.query, Err(EINTR), sleep),
            None => return,
        }
    }
}

/// Which flags a path needs for a use.
fn needed_flags(path_use: u8) -> u32 {
    match u32::from(path_use) {
        c::LS_RESOLVE_PATH_USE_UNIDIRECTIONAL => c::IB_PATH_PRIMARY | c::IB_PATH_OUTBOUND,
        c::LS_RESOLVE_PATH_USE_ALL => c::IB_PATH_PRIMARY,
        _ => c::IB_PATH_PRIMARY | c::IB_PATH_GMP | c::IB_PATH_BIDIRECTIONAL,
    }
}

/// The paths of an answer that are good for the use.
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

/// User space has answered. An answer that nobody waits for is not told of.
fn resolved(answer: &Request<'_>, sleep: &MaySleep) -> Result {
    if answer.flags() & c::NLM_F_REQUEST != 0 {
        return Err(EPERM);
    }
    let taken = {
        let mut all = ADMINISTRATION.lock();
        let seq = answer.seq();
        all.take_asked(|one| one.seq == seq && !one.query.state.lock().canceled)
    };
    let Some(asked) = taken else {
        return Ok(());
    };
    let query = &asked.query;
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
            query.on_answer.resolved(query, paths, sleep);
            query::finish(query, Ok(()), sleep);
        }
        _ => query::finish(query, Err(EIO), sleep),
    }
    Ok(())
}

/// User space says how long its answers are awaited.
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
    // The header's number has a sign.
    let wanted = u32::try_from(wanted as i32).unwrap_or(0).clamp(least, most);
    let mut all = ADMINISTRATION.lock();
    let before = TIMEOUT_MS.swap(wanted, Ordering::Relaxed);
    for asked in &mut all.asked {
        let longer = u64::from(wanted).saturating_mul(1_000_000);
        let shorter = u64::from(before).saturating_mul(1_000_000);
        asked.until = asked.until.saturating_add(longer).saturating_sub(shorter);
    }
    arm(&all);
    Ok(())
}

/// What user space may say, for administrators.
const OPERATIONS: &[(u32, ls::Act)] = &[
    (c::RDMA_NL_LS_OP_RESOLVE, resolved),
    (c::RDMA_NL_LS_OP_SET_TIMEOUT, set_timeout),
];

/// The service is there as long as this is.
pub(super) struct Registration(());

/// Makes what waits for user space.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn start(sleep: &MaySleep) -> Result<Registration> {
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
    let queue = OwnedQueue::new(c"ib_nl_sa_wq", flags, 1, sleep)?;
    let service = Arc::pin_init(
        pin_init!(Service {
            queue,
            work <- new_delayed_work!("sa::Service"),
        }),
        GFP_KERNEL,
    )?;
    ADMINISTRATION.lock().service = Some(service);
    ls::set_operations(OPERATIONS);
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        let service = ADMINISTRATION.lock().service.take();
        if let Some(service) = service {
            // SAFETY: The module goes in process context.
            delayed::cancel_sync(&service, &unsafe { MaySleep::assume() });
        }
    }
}
