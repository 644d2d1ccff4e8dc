// SPDX-License-Identifier: GPL-2.0

//! Events of net devices and their addresses, and the GID updates that follow from them.
//!
//! The notifiers run under locks of the network stack, so they only queue work, which holds references to the net
//! devices. The workqueue is ordered: events are handled one at a time, in the order of their occurrence.
//!
//! C header: `include/linux/netdevice.h` (`enum netdev_cmd`).

use kernel::{
    alloc::Flags,
    impl_has_work, new_work, pr_warn_once,
    prelude::*,
    sync::{aref::ARef, Arc},
    workqueue::Work,
};
use kernel_ext::{
    net::{
        address::{AddressListener, AddressRegistration, IpAddress},
        device::{LinkType, NetDevice},
        notifier::{self, Event, Listener},
    },
    sleepable::{self, Sleepable, SleepableWork},
    work::{OwnedQueue, QueueFlags},
};
use rdma::MaySleep;

use super::{for_each_port, gid_of, Port, Relation};

/// An update of a port's GIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    AddDefault,
    DeleteDefault,
    AddAddresses,
    DeleteAll,
    /// The same for the upper devices of the net device.
    AddAddressesUp,
    DeleteAllUp,
    AddAddress(IpAddress),
    DeleteAddress(IpAddress),
}

/// An update for the addresses of `ndev`, on all ports whose net device has the relation to `of`.
struct Step {
    action: Action,
    relation: Relation,
    ndev: ARef<NetDevice>,
    of: ARef<NetDevice>,
}

impl Step {
    fn new(action: Action, relation: Relation, ndev: &NetDevice, of: &NetDevice) -> Self {
        Self {
            action,
            relation,
            ndev: ndev.into(),
            of: of.into(),
        }
    }

    fn run(&self, sleep: &MaySleep) {
        let ndev = &*self.ndev;
        for_each_port(self.relation, &self.of, sleep, |port| match self.action {
            Action::AddDefault => port.add_default(ndev),
            Action::DeleteDefault => port.delete_default(ndev),
            Action::AddAddresses => port.add_addresses(ndev),
            Action::DeleteAll => port.delete_all_of(ndev),
            Action::AddAddressesUp => port.with_uppers(ndev, Port::add_addresses),
            Action::DeleteAllUp => port.with_uppers(ndev, Port::delete_all_of),
            Action::AddAddress(address) => port.add(gid_of(address), ndev, false),
            Action::DeleteAddress(address) => port.delete(gid_of(address), ndev, false),
        });
    }
}

/// Maximum number of steps of an event.
const MAX_STEPS: usize = 3;

/// The steps of an event.
type Steps = [Option<Step>; MAX_STEPS];

/// Queued steps.
#[pin_data]
struct Job {
    steps: Steps,
    #[pin]
    work: Work<Sleepable<Job>>,
}

impl_has_work! {
    impl HasWork<Sleepable<Self>> for Job { self.work }
}

impl SleepableWork for Job {
    fn run(this: Arc<Self>, sleep: &MaySleep) {
        for step in this.steps.iter().flatten() {
            step.run(sleep);
        }
    }
}

/// The notifier of net devices and addresses.
struct Follower(Arc<OwnedQueue>);

impl Follower {
    /// Queues steps. Any context that allows the allocation flags.
    fn queue(&self, steps: Steps, flags: Flags) {
        let job = pin_init!(Job { steps, work <- new_work!("roce_gid::Job") });
        match Arc::pin_init(job, flags) {
            Ok(job) => {
                sleepable::enqueue(&self.0, &job);
            }
            Err(_) => pr_warn_once!("no memory to follow what happens to net devices\n"),
        }
    }
}

/// The steps of a net device event.
fn steps_of(ndev: &NetDevice, event: Event) -> Option<Steps> {
    let step = |action, relation| Some(Step::new(action, relation, ndev, ndev));
    let add_default = || step(Action::AddDefault, Relation::Default);
    let add_addresses = || step(Action::AddAddresses, Relation::Addresses);
    let there = ndev.is_registered();
    Some(match event {
        Event::Register | Event::Up => [add_default(), add_addresses(), None],
        Event::Unregister => [step(Action::DeleteAll, Relation::Any), None, None],
        Event::ChangeAddress => [
            step(Action::DeleteAll, Relation::Addresses),
            there.then(add_default).flatten(),
            there.then(add_addresses).flatten(),
        ],
        Event::BondFailover => [
            step(Action::DeleteAllUp, Relation::Upper),
            step(Action::AddDefault, Relation::Bond),
            step(Action::AddAddressesUp, Relation::Addresses),
        ],
        _ => return None,
    })
}

/// The steps when a net device gets an upper device.
fn steps_of_link(ndev: &NetDevice, upper: &NetDevice) -> Steps {
    [
        // A port of a bond has no default GIDs of its own.
        Some(Step::new(
            Action::DeleteDefault,
            Relation::Bond,
            ndev,
            upper,
        )),
        Some(Step::new(Action::AddDefault, Relation::Bond, upper, upper)),
        Some(Step::new(
            Action::AddAddressesUp,
            Relation::Addresses,
            upper,
            upper,
        )),
    ]
}

/// The steps when a net device loses an upper device.
fn steps_of_unlink(ndev: &NetDevice, upper: &NetDevice) -> Steps {
    [
        Some(Step::new(Action::DeleteAllUp, Relation::Upper, upper, ndev)),
        Some(Step::new(
            Action::AddAddresses,
            Relation::Addresses,
            ndev,
            ndev,
        )),
        None,
    ]
}

/// Whether a net device may be used by RoCE.
fn is_ethernet(ndev: &NetDevice) -> bool {
    ndev.link_type() == LinkType::ETHER
}

impl Listener for Follower {
    fn event(&self, ndev: &NetDevice, event: Event, _sleep: &MaySleep) {
        if !is_ethernet(ndev) {
            return;
        }
        if let Some(steps) = steps_of(ndev, event) {
            // If a step is lost, a GID entry may keep its reference to the net device.
            self.queue(steps, GFP_KERNEL);
        }
    }

    fn upper_changed(&self, ndev: &NetDevice, upper: &NetDevice, linked: bool, _sleep: &MaySleep) {
        if !is_ethernet(ndev) {
            return;
        }
        let steps = if linked {
            steps_of_link(ndev, upper)
        } else {
            steps_of_unlink(ndev, upper)
        };
        self.queue(steps, GFP_KERNEL);
    }
}

impl AddressListener for Follower {
    fn address(&self, ndev: &NetDevice, address: IpAddress, added: bool) {
        if !is_ethernet(ndev) {
            return;
        }
        let action = if added {
            Action::AddAddress(address)
        } else {
            Action::DeleteAddress(address)
        };
        let step = Step::new(action, Relation::Addresses, ndev, ndev);
        self.queue([Some(step), None, None], GFP_ATOMIC);
    }
}

/// Keeps the notifiers registered until it is dropped, which waits for queued steps.
///
/// Fields are dropped in this order: the queue is dropped with the last notifier.
pub(crate) struct Registration {
    _devices: Pin<KBox<notifier::Registration<Follower>>>,
    _addresses: Pin<KBox<AddressRegistration<Follower>>>,
}

/// Registers the notifiers, which report all existing net devices and addresses.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start(sleep: &MaySleep) -> Result<Registration> {
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED;
    let queue = OwnedQueue::new(c"gid-cache-wq", flags, 1, sleep)?;
    let queue = Arc::new(queue, GFP_KERNEL)?;
    // Addresses first, so that those of net devices reported afterwards are not missed.
    let _addresses = AddressRegistration::new(Follower(queue.clone()), sleep)?;
    let _devices = notifier::Registration::new(Follower(queue), sleep)?;
    Ok(Registration {
        _devices,
        _addresses,
    })
}
