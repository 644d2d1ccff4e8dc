// SPDX-License-Identifier: GPL-2.0

//! Ports with a connection manager: their agents and counters.
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Port::agents` | the agents of a port, as long as the device is there; held while a message is made and posted | process context | what the core and drivers take |
//! | `Port::requests` | requests whose senders' addresses are not known yet, and the senders that are known | process context | the allocator, the work queue's |
//! | `PORTS` | the ports | process context | the allocator |

use core::sync::atomic::{AtomicU64, Ordering};

use ib_cm_protocol::{counters::Group, messages::Attribute};
use kernel::{
    new_work,
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::{sleepable::Sleepable, static_lock::static_lock, static_vec::StaticVec};
use rdma::{
    client::{
        attachment::Attached,
        mad::{self, Origin, Received},
        port_files::PortFiles,
    },
    core::{path::Path, Device},
    MaySleep,
};

use crate::requests::{Arrival, Mark, Requests};

/// The handlers of the agents of a port.
pub(crate) struct Ends(pub(crate) Arc<Port>);

pub(crate) type Agent = mad::Agent<Ends>;

/// What a port has as long as the device is there, in the order in which it ends. REPs have one of their own: a port limits how many messages of an agent wait for answers.
pub(crate) struct Agents {
    pub(crate) usual: Agent,
    pub(crate) replies: Agent,
    /// The counters in sysfs.
    pub(crate) _files: PortFiles,
    /// The removal of the device waits until this is dropped, too.
    pub(crate) device: Attached,
}

/// A port with a connection manager.
#[pin_data]
pub(crate) struct Port {
    /// The address of the device, by which it is told from others, and no more.
    device: usize,
    pub(crate) number: u32,
    pub(crate) is_roce: bool,
    pub(crate) ack_delay: u8,
    pub(super) counters: [[AtomicU64; Attribute::ALL.len()]; Group::ALL.len()],
    #[pin]
    pub(super) agents: Mutex<Option<Agents>>,
    #[pin]
    requests: Mutex<Requests<Arc<Search>, Received>>,
}

/// Who looks for the senders of a port's requests, one after the other.
#[pin_data]
pub(crate) struct Search {
    pub(crate) port: Arc<Port>,
    #[pin]
    pub(super) work: Work<Sleepable<Search>>,
}

impl Search {
    fn new(port: &Arc<Port>) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            port: port.clone(),
            work <- new_work!("Search::work"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// The message that has waited for longest, of a sender that nobody else looks for. The work item calls this until there is none.
    pub(super) fn next(self: &Arc<Self>, _sleep: &MaySleep) -> Option<Received> {
        let is_self = |search: &Arc<Self>| Arc::ptr_eq(search, self);
        let mut requests = self.port.requests.lock();
        requests.next(is_self)
    }

    /// The sender is there, or not: if it repeats the message that is a new one from now on.
    pub(super) fn ends(self: &Arc<Self>, is_there: bool, _sleep: &MaySleep) {
        let is_self = |search: &Arc<Self>| Arc::ptr_eq(search, self);
        self.port.requests.lock().end_search(is_self, is_there);
    }
}

impl Port {
    pub(super) fn new(device: &Device, number: u32) -> Result<Arc<Self>> {
        let (address, ack_delay) = (address(device), device.attrs().local_ca_ack_delay);
        let (requests, is_roce) = (Requests::new()?, device.is_roce(number));
        let init = pin_init!(Self {
            device: address,
            number,
            is_roce,
            ack_delay,
            counters: [const { [const { AtomicU64::new(0) }; Attribute::ALL.len()] }; Group::ALL.len()],
            agents <- new_mutex!(None, "Port::agents"),
            requests <- new_mutex!(requests, "Port::requests"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Calls `f` with the agents, through which the device is there.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has gone, and those of `f`.
    pub(crate) fn with<R>(
        &self,
        _sleep: &MaySleep,
        f: impl FnOnce(&Agents) -> Result<R>,
    ) -> Result<R> {
        f(self.agents.lock().as_ref().ok_or(EINVAL)?)
    }

    /// A use of the device, whose removal waits until it is dropped.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the device has gone.
    pub(crate) fn attached(&self, sleep: &MaySleep) -> Result<Attached> {
        self.with(sleep, |agents| agents.device.another().ok_or(EINVAL))
    }

    /// Lets a message wait until its sender is found, by a search that `start` queues. Without room it is dropped. `false` if it waits
    /// already.
    pub(crate) fn wait(
        self: &Arc<Self>,
        message: Received,
        mark: Mark,
        _sleep: &MaySleep,
        start: impl FnOnce(&Arc<Search>),
    ) -> bool {
        let mut requests = self.requests.lock();
        let arrival = requests.arrive(mark, message, || Search::new(self).ok());
        if let Arrival::Begins(search) = &arrival {
            // With the lock, so that it is not queued after the port has gone.
            start(search);
        }
        // A message that does not wait is freed without the lock.
        drop(requests);
        !matches!(arrival, Arrival::Repeated(_))
    }

    /// Whether messages of a sender wait, or one of them is being taken.
    pub(crate) fn has_requests(&self, origin: &Origin, _sleep: &MaySleep) -> bool {
        self.requests.lock().has_any_of(origin)
    }

    /// A peer has answered: its address was found.
    pub(crate) fn has_found(&self, origin: Origin, _sleep: &MaySleep) {
        self.requests.lock().know(origin, true);
    }

    /// No message waits from now on. The result has what still looks for senders.
    pub(super) fn close_requests(&self, _sleep: &MaySleep) -> impl Iterator<Item = Arc<Search>> {
        let (waiting, searches) = self.requests.lock().close();
        drop(waiting);
        searches
    }

    /// Counts messages.
    pub(crate) fn count(&self, group: Group, message: Attribute, by: u64) {
        let counter = self
            .counters
            .get(group.index())
            .and_then(|of| of.get(message.index()));
        if let Some(counter) = counter {
            counter.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Whether it is a port of this device.
    pub(crate) fn is_of(&self, device: &Device) -> bool {
        self.device == address(device)
    }
}

fn address(device: &Device) -> usize {
    core::ptr::from_ref(device) as usize
}

static_lock! {
    /// All ports.
    pub(super) static PORTS: Mutex<StaticVec<Arc<Port>>> = StaticVec::new();
}

/// The port of a device.
pub(crate) fn find(device: &Device, number: u32) -> Option<Arc<Port>> {
    let ports = PORTS.lock();
    let mut ports = ports.iter();
    ports
        .find(|port| port.number == number && port.is_of(device))
        .cloned()
}

/// A use of a device; `None` if none of its ports has a connection manager.
pub(crate) fn attached(device: &Device, sleep: &MaySleep) -> Option<Attached> {
    let ports = PORTS.lock();
    let port = ports.iter().find(|port| port.is_of(device)).cloned();
    drop(ports);
    port?.attached(sleep).ok()
}

/// The port of some device that has the source GID of a path.
pub(crate) fn find_by_gid(path: &Path, sleep: &MaySleep) -> Option<Arc<Port>> {
    let mut candidates = KVec::new();
    for port in PORTS.lock().iter() {
        candidates.push(port.clone(), GFP_KERNEL).ok()?;
    }
    candidates.into_iter().find(|port| {
        let found = port.with(sleep, |agents| {
            rdma::core::address_vector::port_of_gid(agents.usual.device(), path).ok_or(ENOENT)
        });
        found == Ok(port.number)
    })
}
