// SPDX-License-Identifier: GPL-2.0

//! Resolving IP addresses to hardware addresses: routes and neighbours.
//!
//! A question that cannot be answered at once waits in a list. It is asked again whenever the hardware address of some
//! neighbour becomes known, and for the last time at its deadline.
//!
//! # Locks
//!
//! | lock | protects | context | taken inside |
//! |---|---|---|---|
//! | `RESOLVER` | the list of questions, and the queue that asks them again | any, interrupts off | locks of the work queue |
//! | `Request::state` | what is known of a question | process | what looking up routes and neighbours takes |
//!
//! C header: `include/rdma/ib_addr.h`.

use kernel::{
    ffi::{c_int, c_ulong, c_void},
    impl_has_delayed_work, new_delayed_work, new_mutex,
    prelude::*,
    sync::{rcu, Arc, LockClassKey, Mutex},
    workqueue::{DelayedWork, WorkItem},
};
use kernel_ext::{
    bindings as c, delayed,
    door::Const,
    error::{EADDRNOTAVAIL, ENODATA},
    export::export,
    net::{
        address::IpAddress,
        device::NetDevice,
        resolve::{NeighbourListener, NeighbourRegistration},
    },
    sync::{Completion, IrqBackend},
    timer::now_ns,
    work::{OwnedQueue, QueueFlags},
};
use rdma::{
    view::{
        addr::{
            size_of_family, CallbackArgument, DevAddr, Question, Sockaddr, SockaddrArgument,
            SourceL2, Storage,
        },
        gid::BorrowedGid,
    },
    Gid, MaySleep,
};

pub(crate) mod ls;
mod query;

use query::{device_of, Egress, Query, Route};

/// How long a datagram's sender waits for the hardware address of its destination, in milliseconds.
const DATAGRAM_TIMEOUT_MS: u64 = 1000;

/// Who is told of the answer.
enum Waiter {
    /// C, which has a callback.
    C(Question, Storage),
    /// A thread that waits.
    Thread,
}

/// What is known of a question.
struct State {
    /// Taken by who answers.
    waiter: Option<Waiter>,
    answer: Result<Route>,
    /// The source address that the last route has chosen.
    source: Option<IpAddress>,
}

impl State {
    /// Takes note of an answer, and fills in what it says for C.
    fn set_answer(&mut self, query: &Query, answer: Result<Route>) {
        if let Ok(route) = &answer {
            self.source = Some(route.source);
        }
        if let Some(Waiter::C(question, _)) = &self.waiter {
            fill_dev_addr(question.addr(), query, &answer);
        }
        self.answer = answer;
    }

    /// Takes note of what user space has answered, if that is what the question waits for.
    fn set_gid(&mut self, query: &Query, gid: Gid) {
        let waits = self.waiter.is_some() && self.result() == Err(ENODATA);
        let Ok(route) = self.answer.as_mut().map_err(|_| ()) else {
            return;
        };
        if waits {
            route.set_next_hop_gid(gid);
            if let Some(Waiter::C(question, _)) = &self.waiter {
                fill_dev_addr(question.addr(), query, &self.answer);
            }
        }
    }

    /// Whether the question is answered, and how.
    fn result(&self) -> Result {
        match &self.answer {
            Ok(route) => route.next_hop.map(|_| ()),
            Err(error) => Err(*error),
        }
    }
}

/// A question that waits.
#[pin_data]
struct Request {
    query: Query,
    /// What a question of C's is about: its address, for finding it.
    about: usize,
    /// When it is asked for the last time, in nanoseconds.
    deadline: u64,
    #[pin]
    state: Mutex<State>,
    #[pin]
    answered: Completion,
    #[pin]
    work: DelayedWork<Request>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Request { self.work }
}

impl WorkItem for Request {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // SAFETY: Works of the queue run in process context.
        let sleep = &unsafe { MaySleep::assume() };
        this.process(sleep);
    }
}

/// Fills in what is known for C.
fn fill_dev_addr(addr: &DevAddr, query: &Query, answer: &Result<Route>) {
    if let Ok(route) = answer {
        addr.set_source(&route.l2);
        addr.set_route(route.network, route.hop_limit);
        if let Ok(next_hop) = &route.next_hop {
            addr.set_destination(next_hop);
        }
    }
    if matches!(query.egress, Egress::Gid(_)) {
        addr.forget_device();
    }
}

impl Request {
    /// Asks for the first time, on behalf of `waiter`.
    fn new(query: Query, waiter: Waiter, timeout_ms: u64, sleep: &MaySleep) -> Result<Arc<Self>> {
        let timeout = timeout_ms.saturating_mul(1_000_000);
        let about = match &waiter {
            Waiter::C(question, _) => core::ptr::from_ref(question.addr()).addr(),
            Waiter::Thread => 0,
        };
        let mut state = State {
            waiter: Some(waiter),
            answer: Err(ENODATA),
            source: None,
        };
        state.set_answer(&query, query.resolve(sleep));
        Arc::pin_init(
            pin_init!(Self {
                query,
                about,
                deadline: now_ns().saturating_add(timeout),
                state <- new_mutex!(state, "addr::Request::state"),
                answered <- Completion::new(),
                work <- new_delayed_work!("addr::Request"),
            }),
            GFP_KERNEL,
        )
    }

    /// Jiffies until the deadline.
    fn remaining(&self) -> c_ulong {
        let milliseconds = self.deadline.saturating_sub(now_ns()).div_ceil(1_000_000);
        kernel::time::msecs_to_jiffies(u32::try_from(milliseconds).unwrap_or(u32::MAX))
    }

    /// Asks again, if there is no answer yet; and tells who asked, if there is one.
    fn process(self: &Arc<Self>, sleep: &MaySleep) {
        let mut state = self.state.lock();
        if state.waiter.is_none() {
            return;
        }
        if state.result() == Err(ENODATA) {
            state.set_answer(&self.query, self.query.resolve(sleep));
            let expired = now_ns() >= self.deadline;
            if state.result().is_err() && expired {
                state.answer = Err(ETIMEDOUT);
            } else if state.result() == Err(ENODATA) {
                drop(state);
                return requeue(self);
            }
        }
        let waiter = state.waiter.take();
        let result = state.result();
        let source = state.source;
        drop(state);
        match waiter {
            Some(Waiter::C(question, mut storage)) => {
                if let Some(source) = source {
                    storage.set_ip(source);
                }
                question.answer(result, storage);
            }
            Some(Waiter::Thread) => self.answered.complete_all(),
            None => {}
        }
        forget(self);
    }
}

/// The questions that wait.
struct Resolver {
    requests: KVec<Arc<Request>>,
    /// There as long as the module.
    queue: Option<Arc<OwnedQueue>>,
}

/// Marks the lock of the resolver.
enum ResolverLock {}

impl kernel::sync::lock::GlobalLockBackend for ResolverLock {
    const NAME: &'static CStr = c"ib_core::addr::RESOLVER";
    type Item = Resolver;
    type Backend = IrqBackend;

    fn get_lock_class() -> Pin<&'static LockClassKey> {
        kernel::static_lock_class!()
    }
}

// SAFETY: `init` is called before anything is resolved, and there is one static of this type.
static RESOLVER: kernel::sync::lock::GlobalLock<ResolverLock> = unsafe {
    kernel::sync::lock::GlobalLock::new(Resolver {
        requests: KVec::new(),
        queue: None,
    })
};

/// Lets a question wait. It is asked once more at once: the answer may have come before it was in the list.
fn submit(request: &Arc<Request>) -> Result {
    let mut resolver = RESOLVER.lock();
    resolver.requests.push(request.clone(), GFP_ATOMIC)?;
    if let Some(queue) = &resolver.queue {
        delayed::enqueue(queue, request, 0);
    }
    Ok(())
}

/// Lets a question wait on, until its deadline at most, if it is not withdrawn.
fn requeue(request: &Arc<Request>) {
    let resolver = RESOLVER.lock();
    let mut requests = resolver.requests.iter();
    if !requests.any(|waiting| Arc::ptr_eq(waiting, request)) {
        return;
    }
    if let Some(queue) = &resolver.queue {
        // Where a neighbour has become known meanwhile, the question is queued already, and stays so.
        let _ = queue.enqueue_delayed(request.clone(), request.remaining());
    }
}

/// Takes a question out of the list, if it is there.
fn dequeue(wanted: impl Fn(&Arc<Request>) -> bool) -> Option<Arc<Request>> {
    let mut resolver = RESOLVER.lock();
    let index = resolver.requests.iter().position(wanted)?;
    resolver.requests.remove(index).ok()
}

/// Forgets a question that is answered.
fn forget(request: &Arc<Request>) {
    let taken = dequeue(|waiting| Arc::ptr_eq(waiting, request));
    // It may have been queued once more before it was taken out.
    delayed::cancel(request);
    drop(taken);
}

/// What asks the questions again.
struct NeighbourEvents;

impl NeighbourListener for NeighbourEvents {
    fn neighbour_known(&self) {
        let resolver = RESOLVER.lock();
        let Some(queue) = &resolver.queue else {
            return;
        };
        for request in &resolver.requests {
            delayed::enqueue(queue, request, 0);
        }
    }
}

/// As long as this is there, addresses can be resolved.
pub(crate) struct Registration {
    _neighbours: Pin<KBox<NeighbourRegistration<NeighbourEvents>>>,
    _queue: Queue,
}

/// The resolver has a queue as long as this is there. Dropping it waits for the works.
struct Queue;

impl Drop for Queue {
    fn drop(&mut self) {
        let queue = RESOLVER.lock().queue.take();
        drop(queue);
    }
}

/// Makes the lock. The module's initialisation calls it, once, before all else.
pub(crate) fn init() {
    // SAFETY: Called once, before anything is resolved.
    unsafe { RESOLVER.init() };
}

/// Makes what resolves addresses. The module's initialisation calls it, once.
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

/// The IP address that a GID of RoCE is.
fn ip_of(gid: Gid) -> IpAddress {
    gid.ipv4().map_or(IpAddress::V6(gid.0), IpAddress::V4)
}

/// A question about GIDs of RoCE, from the net device of an entry.
fn query_by_gid(entry: BorrowedGid<'_>, source: Gid, destination: Gid) -> Query {
    let egress = Egress::Gid(entry.hold());
    Query::new(ip_of(source), ip_of(destination), egress)
}

/// Whether packets from the net device of an entry, between GIDs of RoCE, go through a router.
///
/// # Errors
///
/// `EINVAL` for GIDs of two kinds, or an entry that has no net device any more; `EHOSTUNREACH` …: as `connect` would say it.
pub(crate) fn is_routed(
    entry: BorrowedGid<'_>,
    (source, destination): (Gid, Gid),
    _sleep: &MaySleep,
) -> Result<bool> {
    query_by_gid(entry, source, destination).is_routed()
}

/// Takes the answer of user space to the question with the number `seq`: the GID behind a router of InfiniBand. Returns whether
/// there is such a question.
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

/// Resolves the GID of a datagram's destination: the hardware address of the next hop, and the hop limit. Waits a second
/// at most.
///
/// # Errors
///
/// `EINVAL` for GIDs of two kinds, or a source that has been deleted, `ETIMEDOUT` if nobody has answered, `EHOSTUNREACH` …:
/// as `connect` would say it.
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

/// Returns how many bytes a socket address has; 0 for a family that the RDMA stack does not know.
#[export]
fn rdma_addr_size(address: Sockaddr<'_>) -> c_int {
    size_of_family(address.family()) as c_int
}

/// Returns how many bytes the socket address in a `sockaddr_in6` has; 0 if it cannot be there.
#[export]
fn rdma_addr_size_in6(address: SockaddrArgument<'_, c::sockaddr_in6>) -> c_int {
    size_within(address)
}

/// Returns how many bytes the socket address in a `sockaddr_storage` has; 0 if it cannot be there.
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

/// Copies what of a net device goes into packets that leave by it. Any context.
#[export]
fn rdma_copy_src_l2_addr(addr: &DevAddr, ndev: Const<'_, NetDevice>) {
    addr.set_source(&SourceL2::of(&ndev));
}

/// Fills in what of the net device with an address goes into packets; the net device that is bound, if there is one.
///
/// # Errors
///
/// `ENODEV` if there is no such device, `EADDRNOTAVAIL` if none has the address, `EINVAL` without a namespace.
#[export]
fn rdma_translate_ip(address: Sockaddr<'_>, addr: &DevAddr) -> Result {
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

/// What C asks.
fn query_of(addr: &DevAddr, source: &Storage, to: &Storage, by_gid: bool) -> Result<Query> {
    let net = addr.net().ok_or(EINVAL)?;
    let egress = if by_gid {
        Egress::Gid(addr.sgid().ok_or(EINVAL)?.hold())
    } else {
        Egress::Net(net, addr.bound_device())
    };
    let (source, destination) = source.ip().zip(to.ip()).ok_or(EINVAL)?;
    Ok(Query::new(source, destination, egress))
}

/// Resolves an IP address. The callback is called once, in process context, unless this fails, or `rdma_addr_cancel`
/// withdraws the question.
///
/// `addr` must stay until then.
///
/// # Errors
///
/// `EINVAL` for addresses of two families, or without a namespace, `ENOMEM`; as `connect` would say it.
#[export]
#[expect(clippy::too_many_arguments, reason = "the header has so many")]
fn rdma_resolve_ip(
    source: SockaddrArgument<'_>,
    destination: Sockaddr<'_>,
    addr: &DevAddr,
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
    let query = query_of(addr, &source, &destination, by_gid)?;
    // SAFETY: The header says that `addr` stays until the callback is called; who withdraws the question waits until it is
    // dropped. The callback is for this context.
    let question = unsafe { Question::new(addr, callback, context) };
    let waiter = Waiter::C(question, source);
    let request = Request::new(query, waiter, timeout_ms as u64, sleep)?;
    let first = request.state.lock().result();
    match first {
        Ok(()) | Err(ENODATA) => submit(&request),
        Err(error) => Err(error),
    }
}

/// Withdraws the question about `addr`, if there is one: when this returns, its callback does not run and will not. Not from
/// the callback itself.
#[export]
fn rdma_addr_cancel(addr: &DevAddr, sleep: &MaySleep) {
    let about = core::ptr::from_ref(addr).addr();
    while let Some(request) = dequeue(|waiting| waiting.about == about) {
        // The question is not kept any longer than `addr`. Nobody answers it from now on, even if it is queued once more
        // (`answer`); who has begun to answer it is waited for.
        request.state.lock().waiter = None;
        delayed::cancel_sync(&request, sleep);
    }
}
