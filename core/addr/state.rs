// SPDX-License-Identifier: GPL-2.0

//! Data of address resolution: the queries, the routes found so far, and the list of requests.
//!
//! C header: `include/rdma/ib_addr.h`.

use core::sync::atomic::{AtomicU32, Ordering};

use kernel::{
    ffi::c_int,
    impl_has_delayed_work,
    prelude::*,
    sync::{Arc, Mutex},
    workqueue::DelayedWork,
};
use kernel_ext::{
    bindings as c,
    error::ENODATA,
    net::{address::IpAddress, device::LinkType, ns::NetRef, resolve::HardwareAddress},
    sleepable::Sleepable,
    static_lock::static_lock,
    static_vec::StaticVec,
    sync::Completion,
    work::OwnedQueue,
};
use rdma::{
    core::{
        addr::{DevAddrMut, ResolveRequest, SourceL2, Storage},
        gid::GidRef,
    },
    Gid,
};

/// An IPoIB hardware address has flags and a QPN before the GID.
const IPOIB_QPN_BYTES: usize = 4;

/// What is to be resolved.
pub(super) struct Query {
    /// The source address; unspecified if the route chooses it.
    pub(super) source: IpAddress,
    /// The destination address.
    pub(super) destination: IpAddress,
    /// The egress of the packets.
    pub(super) egress: Egress,
    /// The netlink sequence number for user space.
    pub(super) seq: u32,
}

impl Query {
    /// A query with a new sequence number.
    pub(super) fn new(source: IpAddress, destination: IpAddress, egress: Egress) -> Self {
        static SEQ: AtomicU32 = AtomicU32::new(1);
        Self {
            source,
            destination,
            egress,
            seq: SEQ.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// The egress of packets.
pub(super) enum Egress {
    /// The net device of a GID.
    Gid(GidRef),
    /// A namespace and the index of its net device; 0: any device.
    Net(NetRef, c_int),
}

/// A resolved route.
pub(super) struct Route {
    /// The source address; if it was unspecified, the one chosen by the route.
    pub(super) source: IpAddress,
    /// Attributes of the egress device.
    pub(super) l2: SourceL2,
    /// `enum rdma_network_type`.
    pub(super) network: c::rdma_network_type,
    /// The hop limit.
    pub(super) hop_limit: c_int,
    /// The hardware address of the next hop; `ENODATA` if it is not known yet.
    pub(super) next_hop: Result<HardwareAddress>,
}

impl Route {
    /// Sets the GID of the next hop from a response of user space.
    pub(super) fn set_next_hop_gid(&mut self, gid: Gid) {
        let mut address = HardwareAddress::default();
        let is_ipoib = self.l2.link_type == LinkType::INFINIBAND.0;
        let offset = if is_ipoib { IPOIB_QPN_BYTES } else { 0 };
        let place = address.iter_mut().skip(offset);
        place.zip(gid.0).for_each(|(to, from)| *to = from);
        self.next_hop = Ok(address);
    }
}

/// The receiver of the result.
pub(super) enum Waiter {
    /// A C caller, with its callback and the source address.
    C(ResolveRequest, Storage),
    /// A thread that waits for [`Request::answered`].
    Thread,
}

/// State of a request.
pub(super) struct State {
    /// `None` once the request is completed or canceled.
    pub(super) waiter: Option<Waiter>,
    pub(super) answer: Result<Route>,
    /// The source address that the last route lookup has chosen.
    pub(super) source: Option<IpAddress>,
}

impl State {
    /// Sets the result, and copies it to a C caller's `struct rdma_dev_addr`.
    pub(super) fn set_answer(&mut self, query: &Query, answer: Result<Route>) {
        if let Ok(route) = &answer {
            self.source = Some(route.source);
        }
        if let Some(Waiter::C(c_request, _)) = &mut self.waiter {
            fill_dev_addr(c_request.addr_mut(), query, &answer);
        }
        self.answer = answer;
    }

    /// Sets the GID from user space, if the request still waits for it.
    pub(super) fn set_gid(&mut self, query: &Query, gid: Gid) {
        let waits = self.waiter.is_some() && self.result() == Err(ENODATA);
        let Ok(route) = self.answer.as_mut().map_err(|_| ()) else {
            return;
        };
        if waits {
            route.set_next_hop_gid(gid);
            if let Some(Waiter::C(c_request, _)) = &mut self.waiter {
                fill_dev_addr(c_request.addr_mut(), query, &self.answer);
            }
        }
    }

    /// The status of the request; `ENODATA` while it is pending.
    pub(super) fn result(&self) -> Result {
        match &self.answer {
            Ok(route) => route.next_hop.map(|_| ()),
            Err(error) => Err(*error),
        }
    }
}

/// Copies a result to a C caller's `struct rdma_dev_addr`.
fn fill_dev_addr(mut addr: DevAddrMut<'_>, query: &Query, answer: &Result<Route>) {
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

/// A request that is being resolved.
#[pin_data]
pub(super) struct Request {
    pub(super) query: Query,
    /// The address of a C caller's `struct rdma_dev_addr`, which `rdma_addr_cancel` looks for.
    pub(super) about: usize,
    /// Deadline, in nanoseconds.
    pub(super) deadline: u64,
    #[pin]
    pub(super) state: Mutex<State>,
    #[pin]
    pub(super) answered: Completion,
    #[pin]
    pub(super) work: DelayedWork<Sleepable<Request>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Request { self.work }
}

/// The list of pending requests.
pub(super) struct Resolver {
    pub(super) requests: StaticVec<Arc<Request>>,
    /// Set as long as the module is loaded.
    pub(super) queue: Option<Arc<OwnedQueue>>,
}

static_lock! {
    pub(super) static RESOLVER: SpinLockIrq<Resolver> = Resolver {
        requests: StaticVec::new(),
        queue: None,
    };
}
