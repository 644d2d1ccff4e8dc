// SPDX-License-Identifier: GPL-2.0

//! Resolving IP addresses to hardware addresses, by routes and neighbours.
//!
//! A request that cannot be resolved at once waits in a list. It is retried whenever the hardware address of any
//! neighbour becomes known, and finally at its deadline.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `RESOLVER` | the list of requests, and their workqueue | any, interrupts off | locks of the work queue |
//! | `Request::state` | the state of a request | process | what looking up routes and neighbours takes |
//!
//! C header: `include/rdma/ib_addr.h`.

use kernel::{
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
    sync::{rcu, Arc},
};
use kernel_ext::{
    bindings as c, delayed,
    entry::Const,
    error::{EADDRNOTAVAIL, ENODATA},
    export::export,
    net::{
        address::IpAddress,
        device::NetDevice,
        resolve::{NeighbourListener, NeighbourRegistration},
    },
    work::{OwnedQueue, QueueFlags},
};
use rdma::{
    core::{
        addr::{
            size_of_family, CallbackArgument, DevAddr, DevAddrMut, ResolveRequest, Sockaddr,
            SockaddrArgument, SourceL2, Storage,
        },
        gid::BorrowedGid,
    },
    Gid, MaySleep,
};

pub(crate) mod ls;
mod query;
mod request;
mod state;

use query::device_of;
use request::{dequeue, submit};
use state::{Egress, Query, Request, Waiter, RESOLVER};

/// Timeout for resolving the destination of a datagram, in milliseconds.
const DATAGRAM_TIMEOUT_MS: u64 = 1000;

/// Retries all requests when a neighbour becomes known.
struct NeighbourEvents;

impl NeighbourListener for NeighbourEvents {
    fn neighbour_known(&self) {
        let resolver = RESOLVER.lock();
        let Some(queue) = &resolver.queue else {
            return;
        };
        for request in resolver.requests.iter() {
            delayed::enqueue(queue, request, 0);
        }
    }
}

/// Keeps the resolver running until it is dropped.
pub(crate) struct Registration {
    _neighbours: Pin<KBox<NeighbourRegistration<NeighbourEvents>>>,
    _queue: Queue,
}

/// Owns the resolver's workqueue. Dropping it flushes the queue.
struct Queue;

impl Drop for Queue {
    fn drop(&mut self) {
        let queue = RESOLVER.lock().queue.take();
        drop(queue);
    }
}

/// Starts the resolver. Called once when the module is loaded.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start(sleep: &MaySleep) -> Result<Registration> {
    let queue = OwnedQueue::new(c"ib_addr", QueueFlags::UNBOUND, 0, sleep)?;
    RESOLVER.lock().queue = Some(Arc::new(queue, GFP_KERNEL)?);
    let _queue = Queue;
    let _neighbours = NeighbourRegistration::new(NeighbourEvents, sleep)?;
    Ok(Registration {
        _neighbours,
        _queue,
    })
}

/// The IP address of a RoCE GID.
fn ip_of(gid: Gid) -> IpAddress {
    gid.ipv4().map_or(IpAddress::V6(gid.0), IpAddress::V4)
}

/// A query between RoCE GIDs, from the net device of a GID entry.
fn query_by_gid(entry: BorrowedGid<'_>, source: Gid, destination: Gid) -> Query {
    let egress = Egress::Gid(entry.hold());
    Query::new(ip_of(source), ip_of(destination), egress)
}

/// Whether packets between RoCE GIDs, from the net device of a GID entry, pass an IP router.
///
/// # Errors
///
/// `EINVAL` for an IPv4 and an IPv6 address, or a deleted GID entry; routing errors such as `EHOSTUNREACH`.
pub(crate) fn is_routed(
    entry: BorrowedGid<'_>,
    (source, destination): (Gid, Gid),
    _sleep: &MaySleep,
) -> Result<bool> {
    query_by_gid(entry, source, destination).is_routed()
}

/// Sets the GID that user space has resolved for the query with sequence number `seq`. Returns whether there is such a
/// query.
pub(crate) fn answer(seq: u32, gid: Gid, _sleep: &MaySleep) -> bool {
    let with_number = |request: &&Arc<Request>| request.query.seq == seq;
    let request = RESOLVER.lock().requests.iter().find(with_number).cloned();
    let Some(request) = request else {
        return false;
    };
    request.state.lock().set_gid(&request.query, gid);
    let resolver = RESOLVER.lock();
    if let Some(queue) = &resolver.queue {
        delayed::enqueue(queue, &request, 0);
    }
    true
}

/// Resolves the GID of a datagram's destination to the hardware address of the next hop and the hop limit. Waits for at
/// most one second.
///
/// # Errors
///
/// `EINVAL` for an IPv4 and an IPv6 address, or a deleted source GID; `ETIMEDOUT`; routing errors such as
/// `EHOSTUNREACH`.
pub(crate) fn resolve_gid(
    source: BorrowedGid<'_>,
    destination: Gid,
    sleep: &MaySleep,
) -> Result<([u8; 6], c_int)> {
    let query = query_by_gid(source, source.gid(), destination);
    let request = Request::new(query, Waiter::Thread, DATAGRAM_TIMEOUT_MS, sleep)?;
    let first = request.state.lock().result();
    if first == Err(ENODATA) {
        submit(&request)?;
        request.answered.wait(sleep);
    }
    let state = request.state.lock();
    let route = state.answer.as_ref().map_err(|error| *error)?;
    let [a, b, c, d, e, f, ..] = route.next_hop?;
    Ok(([a, b, c, d, e, f], route.hop_limit))
}

/// Returns the length of a socket address; 0 for an unsupported family.
#[export]
fn rdma_addr_size(address: Sockaddr<'_>) -> c_int {
    size_of_family(address.family()) as c_int
}

/// Returns the length of the socket address in a `sockaddr_in6`; 0 if it does not fit or the family is unsupported.
#[export]
fn rdma_addr_size_in6(address: SockaddrArgument<'_, c::sockaddr_in6>) -> c_int {
    size_within(address)
}

/// Returns the length of the socket address in a `sockaddr_storage`; 0 for an unsupported family.
#[export]
fn rdma_addr_size_kss(address: SockaddrArgument<'_, c::__kernel_sockaddr_storage>) -> c_int {
    size_within(address)
}

fn size_within<T>(address: SockaddrArgument<'_, T>) -> c_int {
    let size = address
        .0
        .map_or(0, |address| size_of_family(address.family()));
    if size <= size_of::<T>() {
        size as c_int
    } else {
        0
    }
}

/// Copies the source hardware address and device attributes of a net device. Any context.
#[export]
fn rdma_copy_src_l2_addr(mut addr: DevAddrMut<'_>, ndev: Const<'_, NetDevice>) {
    addr.set_source(&SourceL2::of(&ndev));
}

/// Sets the source hardware address by the bound net device, or by the net device with an IP address.
///
/// # Errors
///
/// `ENODEV` without such a device, `EADDRNOTAVAIL` if none has the address, `EINVAL` without a namespace.
#[export]
fn rdma_translate_ip(address: Sockaddr<'_>, mut addr: DevAddrMut<'_>) -> Result {
    let net = addr.net().ok_or(EINVAL)?;
    let index = addr.bound_device();
    let guard = rcu::read_lock();
    let ndev = match address.to_storage().ip() {
        Some(ip) => device_of(&net, index, &ip, &guard)?,
        None if index == 0 => return Err(EADDRNOTAVAIL),
        None => NetDevice::by_index_rcu(&net, index.unsigned_abs(), &guard).ok_or(ENODEV)?,
    };
    addr.set_source(&SourceL2::of(ndev));
    Ok(())
}

/// The query for the arguments of `rdma_resolve_ip`.
fn query_of(addr: &DevAddrMut<'_>, source: &Storage, to: &Storage, by_gid: bool) -> Result<Query> {
    let net = addr.net().ok_or(EINVAL)?;
    let egress = if by_gid {
        Egress::Gid(addr.sgid().ok_or(EINVAL)?.hold())
    } else {
        Egress::Net(net, addr.bound_device())
    };
    let (source, destination) = source.ip().zip(to.ip()).ok_or(EINVAL)?;
    Ok(Query::new(source, destination, egress))
}

/// Resolves an IP address. The callback is called once, in process context, unless this fails or `rdma_addr_cancel`
/// cancels the request.
///
/// `addr` must stay valid until then.
///
/// # Errors
///
/// `EINVAL` for addresses of two families, or without a namespace, `ENOMEM`; routing errors.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_resolve_ip(
    source: SockaddrArgument<'_>,
    destination: Sockaddr<'_>,
    addr: DevAddrMut<'_>,
    timeout_ms: c_ulong,
    callback: CallbackArgument,
    by_gid: bool,
    context: *mut c_void,
    sleep: &MaySleep,
) -> Result {
    let destination = destination.to_storage();
    let source = match source.0 {
        Some(source) => source.to_storage(),
        None => Storage::of_family(destination.family()),
    };
    if source.family() != destination.family() {
        return Err(EINVAL);
    }
    let query = query_of(&addr, &source, &destination, by_gid)?;
    // SAFETY: The header says that `addr` stays valid until the callback is called, or the request is cancelled;
    // `rdma_addr_cancel` waits until it is dropped. The callback is for this context.
    let c_request = unsafe { ResolveRequest::new(addr, callback, context) };
    let waiter = Waiter::C(c_request, source);
    let request = Request::new(query, waiter, timeout_ms as u64, sleep)?;
    let first = request.state.lock().result();
    match first {
        Ok(()) | Err(ENODATA) => submit(&request),
        Err(error) => Err(error),
    }
}

/// Cancels the request for `addr`, if there is one. When this returns, its callback is not running and will not run.
/// Not from the callback itself.
#[export]
fn rdma_addr_cancel(addr: &DevAddr, sleep: &MaySleep) {
    let about = core::ptr::from_ref(addr).addr();
    while let Some(request) = dequeue(|waiting| waiting.about == about) {
        // The request does not use `addr` any more, even if its work is queued again: without a waiter nothing is
        // written. Taking the mutex waits for a callback that is being completed.
        request.state.lock().waiter = None;
        delayed::cancel_sync(&request, sleep);
    }
}
