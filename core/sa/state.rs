// SPDX-License-Identifier: GPL-2.0

//! Data of the SA client: ports of subnets with an SA, and their queries.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `ADMINISTRATION` | the ports, the queries by ID, and those sent to user space | any context | the work queue |
//! | `SaPort::address` | the address of the SA | any context | nothing |
//! | `SaPort::capabilities` | the capabilities of the SA | any context | nothing |
//! | `Query::state` | the state of a query | any context | nothing |
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel::{
    impl_has_delayed_work, impl_has_work,
    prelude::*,
    sync::Arc,
    workqueue::{DelayedWork, Work},
};
use kernel_ext::{
    bindings::sa_path_rec, random, sleepable::Sleepable, static_lock::static_lock,
    static_vec::StaticVec, sync::SpinLockIrq,
};
use rdma::{
    core::{
        device::Registered,
        mad::{recv::RecvMad, send::OwnAh},
        Device,
    },
    MaySleep,
};

use super::record::ClassPortInfo;
use crate::mad::state::{Agent, SendMad};

/// Address of a subnet's SA.
pub(super) struct Address {
    pub(super) ah: Arc<OwnAh>,
    pub(super) pkey_index: u16,
    /// Whether its LID is a unicast LID.
    pub(super) is_valid: bool,
}

/// Capabilities of an SA.
#[derive(Default)]
pub(super) struct Capabilities {
    /// Its ClassPortInfo; `None`: not known.
    pub(super) known: Option<ClassPortInfo>,
    /// Number of failed queries.
    pub(super) retries: u32,
}

/// A port of a subnet with an SA.
#[pin_data]
pub(super) struct SaPort {
    /// It stays registered until `remove` has closed the port.
    pub(super) device: Registered,
    pub(super) port_num: u32,
    pub(super) is_opa: bool,
    pub(super) agent: Arc<Agent>,
    #[pin]
    pub(super) address: SpinLockIrq<Option<Arc<Address>>>,
    #[pin]
    pub(super) capabilities: SpinLockIrq<Capabilities>,
    /// Updates the address of the SA.
    #[pin]
    pub(super) update: Work<Sleepable<SaPort>, 1>,
    /// Queries its capabilities.
    #[pin]
    pub(super) query_capabilities: DelayedWork<Sleepable<SaPort>, 2>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>, 1> for SaPort { self.update }
}
impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>, 2> for SaPort { self.query_capabilities }
}

/// Completion of a query.
pub(super) trait QueryHandler: Send + Sync {
    /// The query has completed: with a response (`Err` if its status is an error), or without one: `ETIMEDOUT`, `EINTR`
    /// where it was canceled, `EIO`.
    fn answered(&self, query: &Query, status: Result, answer: Option<&RecvMad>, sleep: &MaySleep);

    /// User space has answered with paths. By default this completes with an error.
    fn resolved(&self, query: &Query, _paths: &mut [sa_path_rec], sleep: &MaySleep) {
        self.answered(query, Err(EIO), None, sleep);
    }
}

/// A query to the SA.
#[pin_data]
pub(super) struct Query {
    /// Its ID, the lower half of the transaction ID.
    pub(super) id: u32,
    pub(super) port: Arc<SaPort>,
    /// Whether the SA is one of Omni-Path.
    pub(super) is_opa: bool,
    pub(super) handler: KBox<dyn QueryHandler>,
    pub(super) send: Arc<SendMad>,
    /// The address that it is sent to.
    pub(super) _address: Arc<Address>,
    #[pin]
    pub(super) state: SpinLockIrq<QueryState>,
}

/// State of a query.
#[derive(Default)]
pub(super) struct QueryState {
    /// Whether it has completed.
    pub(super) answered: bool,
    pub(super) canceled: bool,
    /// The use of the path, as sent to user space.
    pub(super) path_use: u8,
}

/// A query that was sent to user space.
pub(super) struct NetlinkQuery {
    pub(super) query: Arc<Query>,
    pub(super) seq: u32,
    /// Deadline of the response, in nanoseconds.
    pub(super) until: u64,
}

/// The work for timeouts of user space.
#[pin_data]
pub(super) struct Service {
    #[pin]
    pub(super) work: DelayedWork<Sleepable<Service>>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Sleepable<Self>> for Service { self.work }
}

/// All ports and queries.
pub(super) struct Administration {
    pub(super) ports: StaticVec<Arc<SaPort>>,
    queries: StaticVec<Arc<Query>>,
    next_id: Option<u32>,
    /// Queries sent to user space, by deadline.
    pub(super) netlink_queries: StaticVec<NetlinkQuery>,
    pub(super) next_seq: u32,
    /// The work for timeouts of user space, as long as the module is loaded.
    pub(super) service: Option<Arc<Service>>,
}

static_lock! {
    pub(super) static ADMINISTRATION: SpinLockIrq<Administration> = Administration {
        ports: StaticVec::new(),
        queries: StaticVec::new(),
        next_id: None,
        netlink_queries: StaticVec::new(),
        next_seq: 0,
        service: None,
    };
}

/// The port of a device, if its subnet has an SA. Any context.
pub(super) fn find_port(device: &Device, port_num: u32) -> Option<Arc<SaPort>> {
    let all = ADMINISTRATION.lock();
    let is =
        |port: &&Arc<SaPort>| port.port_num == port_num && core::ptr::eq(&*port.device, device);
    all.ports.iter().find(is).cloned()
}

/// IDs are below: C takes a negative one for an error.
const MAX_ID: u32 = i32::MAX as u32;

impl Administration {
    fn place(&self, id: u32) -> core::result::Result<usize, usize> {
        self.queries.binary_search_by_key(&id, |query| query.id)
    }

    /// An unused ID.
    pub(super) fn new_id(&mut self) -> u32 {
        let mut id = match self.next_id {
            Some(id) => id,
            // A random start, so that responses to queries of a previously loaded module match none.
            None => {
                let mut bytes = [0; 4];
                random::fill(&mut bytes);
                u32::from_ne_bytes(bytes) & MAX_ID
            }
        };
        while id == 0 || self.place(id).is_ok() {
            id = id.wrapping_add(1) & MAX_ID;
        }
        self.next_id = Some(id.wrapping_add(1) & MAX_ID);
        id
    }

    /// Assigns a query its ID.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(super) fn add(&mut self, query: &Arc<Query>) -> Result {
        if let Err(place) = self.place(query.id) {
            let slot = self.queries.reserve(GFP_ATOMIC)?;
            slot.insert(place, query.clone());
        }
        Ok(())
    }

    /// The query with an ID.
    pub(super) fn find(&self, id: u32) -> Option<Arc<Query>> {
        self.queries.get(self.place(id).ok()?).cloned()
    }

    /// Removes a query.
    pub(super) fn remove(&mut self, id: u32) -> Option<Arc<Query>> {
        let place = self.place(id).ok()?;
        self.queries.remove(place)
    }

    /// Removes a query from those sent to user space.
    pub(super) fn take_netlink_query(
        &mut self,
        wanted: impl Fn(&NetlinkQuery) -> bool,
    ) -> Option<NetlinkQuery> {
        let place = self.netlink_queries.iter().position(wanted)?;
        self.netlink_queries.remove(place)
    }
}
