// SPDX-License-Identifier: GPL-2.0

//! Identifiers: their state, addresses and settings, and what they have of devices and of the managers below.
//!
//! C header: `include/rdma/rdma_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `CmId::inner` | the state, the addresses and the settings of an identifier | any, interrupts off | `IdBody::owned` |
//! | `CmId::groups` | the multicast groups of an identifier | process context | the allocator |

use cm_rules::{
    address::Address,
    binding::Owner,
    param::starting_psn,
    path::GidType,
    port_space::PortSpace,
    state::{self, Input, State, Step},
};
use kernel::{
    ffi::c_int,
    new_work,
    prelude::*,
    sync::{new_mutex, Arc, Mutex},
    workqueue::Work,
};
use kernel_ext::{
    net::ns::NetRef,
    random,
    sleepable::Sleepable,
    sync::{new_spinlock_irq, SpinLockIrq},
    uses::{Use, Used, Uses},
};
use rdma::{
    client::attachment::Attached,
    core::{
        cm::event::Ece,
        cma::{
            handler::Handling,
            id::{Client, IdBody, Owner as NamedOwner},
            qp::QpLock,
            query::Query,
            resolve::Resolution,
        },
    },
    embeds,
};
use rdma_cma::lower::Slot;

use crate::{
    address::{error, to_raw},
    devices::Dev,
};

/// An identifier.
#[pin_data]
pub(crate) struct CmId {
    #[pin]
    pub(crate) body: IdBody,
    #[pin]
    inner: SpinLockIrq<Inner>,
    #[pin]
    pub(crate) lower: Slot<CmId>,
    #[pin]
    pub(crate) qp: QpLock,
    #[pin]
    pub(super) resolution: Resolution,
    #[pin]
    pub(crate) groups: Mutex<KVec<Membership>>,
    /// The wildcard listener that this one listens for, on its device. Who destroys that one waits until this one is gone.
    pub(crate) parent: Option<Use<CmId>>,
    /// Those that listen for this one: they call the handler of its client.
    #[pin]
    pub(crate) children: Uses,
    /// The first PSN of its connections.
    pub(crate) psn: u32,
    /// For [`jobs`](crate::jobs): its neighbour has another hardware address.
    #[pin]
    pub(super) neighbour: Work<Sleepable<CmId>>,
}

embeds! {
    // SAFETY: No other type of this module has an `IdBody`.
    unsafe impl Embeds for CmId { body: IdBody }
}

// SAFETY: The count is a field of the identifier.
unsafe impl Used for CmId {
    fn uses(&self) -> &Uses {
        &self.children
    }
}

/// A group that an identifier has joined; what is done when it leaves is in the value.
pub(crate) struct Membership {
    /// The address.
    pub(crate) address: Address,
    /// What ends with it.
    pub(crate) joined: KBox<dyn Leaves>,
}

/// Leaving a group.
pub(crate) trait Leaves: Send + Sync {
    /// Leaves the group. Its event is not told any more.
    fn leave(&self, id: &CmId, sleep: &rdma::MaySleep);
}

/// The device of an identifier.
pub(crate) struct Bound {
    pub(crate) dev: Arc<Dev>,
    pub(crate) device: Attached,
    pub(crate) port: u32,
    /// Which of the identifiers of the device it is.
    pub(crate) number: u64,
}

impl Bound {
    /// One more use.
    pub(crate) fn another(&self) -> Option<Self> {
        Some(Self {
            dev: self.dev.clone(),
            device: self.device.another()?,
            port: self.port,
            number: self.number,
        })
    }
}

/// The place of an identifier among those with a next hop: a namespace and a net device of it, an address of 4 bytes or 16, and its
/// number.
pub(crate) type NextHop = ((u64, u32), u8, [u8; 16], usize);

/// What of an identifier changes.
pub(crate) struct Inner {
    pub(crate) state: State,
    pub(crate) source: Option<Address>,
    pub(crate) destination: Option<Address>,
    /// The port of a port space that it has.
    pub(crate) place: Option<(PortSpace, u16)>,
    pub(crate) bound: Option<Bound>,
    pub(crate) gid_type: GidType,
    pub(crate) settings: Settings,
    pub(crate) qkey: u32,
    pub(crate) srq: bool,
    pub(crate) ece: Ece,
    pub(crate) backlog: c_int,
    pub(crate) query: Option<Query>,
    /// By what it is among those that have a neighbour.
    pub(crate) noted: Option<NextHop>,
}

/// What a client may set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) reuse: bool,
    pub(crate) family_only: bool,
    pub(crate) has_said_family_only: bool,
    pub(crate) tos: Option<u8>,
    pub(crate) ack_timeout: Option<u8>,
    pub(crate) rnr_timer: Option<u8>,
    /// The type of devices that it is restricted to: `enum rdma_node_type`.
    pub(crate) node_type: Option<u32>,
}

/// What an identifier is made of.
pub(crate) struct New<'a> {
    pub(crate) net: NetRef,
    pub(crate) client: &'a Client,
    /// `enum rdma_ucm_port_space`.
    pub(crate) space: u32,
    /// `enum ib_qp_type`.
    pub(crate) qp_type: u32,
    pub(crate) owner: NamedOwner<'a>,
    pub(crate) parent: Option<Use<CmId>>,
    pub(crate) state: State,
}

impl CmId {
    /// A new identifier.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(new: New<'_>) -> Result<Arc<Self>> {
        let inner = Inner {
            state: new.state,
            source: None,
            destination: None,
            place: None,
            bound: None,
            gid_type: GidType::Ib,
            settings: Settings::default(),
            qkey: 0,
            srq: false,
            ece: Ece {
                vendor_id: 0,
                attr_mod: 0,
            },
            backlog: 0,
            query: None,
            noted: None,
        };
        let kind = (new.space, new.qp_type);
        let parent = new.parent;
        let init = pin_init!(Self {
            body <- IdBody::new(new.net, new.client, kind, new.owner),
            inner <- new_spinlock_irq!(inner, "CmId::inner"),
            lower <- Slot::new(),
            qp <- QpLock::new(),
            resolution <- Resolution::new(),
            groups <- new_mutex!(KVec::new(), "CmId::groups"),
            parent,
            children <- Uses::new(),
            psn: starting_psn(random::number()),
            neighbour <- new_work!("CmId::neighbour"),
        });
        let made = Arc::pin_init(init, GFP_KERNEL)?;
        made.with(|_| ());
        Ok(made)
    }

    /// Lets `f` change the identifier, and shows its state. `f` must not sleep.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let mut inner = self.inner.lock();
        let result = f(&mut inner);
        self.body.set_state(inner.state as c_int);
        result
    }

    /// The state.
    pub(crate) fn state(&self) -> State {
        self.inner.lock().state
    }

    /// What a call leads to; the state changes.
    ///
    /// # Errors
    ///
    /// What the table says.
    pub(crate) fn call(&self, input: Input) -> Result<Step> {
        self.with(|inner| {
            let step = state::call(inner.state, input).map_err(error)?;
            inner.state = step.new;
            Ok(step)
        })
    }

    /// What has happened leads to; the state changes. `None` if it means nothing.
    pub(crate) fn happen(&self, input: Input) -> Option<Step> {
        self.with(|inner| {
            let step = state::look_up(inner.state, input)?;
            inner.state = step.new;
            Some(step)
        })
    }

    /// A call has failed after its step.
    pub(crate) fn undo(&self, step: &Step) {
        self.with(|inner| inner.state = step.undone(inner.state));
    }

    /// Gives the identifier up. The result is the state before.
    pub(crate) fn begin_end(&self, _handling: &Handling<'_>) -> State {
        self.with(|inner| core::mem::replace(&mut inner.state, State::Destroying))
    }

    /// Both addresses.
    pub(crate) fn ends(&self) -> (Option<Address>, Option<Address>) {
        let inner = self.inner.lock();
        (inner.source, inner.destination)
    }

    /// Both addresses, of an identifier that has them.
    pub(crate) fn both_ends(&self) -> Result<(Address, Address)> {
        match self.ends() {
            (Some(source), Some(destination)) => Ok((source, destination)),
            _ => Err(EINVAL),
        }
    }

    /// Sets addresses, and shows both to clients.
    pub(crate) fn set_ends(&self, source: Option<Address>, destination: Option<Address>) {
        let mut inner = self.inner.lock();
        inner.source = source.or(inner.source);
        inner.destination = destination.or(inner.destination);
        let none = rdma::core::iw::address::SockAddr::NONE;
        let raw = |address: &Option<Address>| address.as_ref().map_or(none, to_raw);
        self.body
            .show_addresses(&raw(&inner.source), &raw(&inner.destination));
    }

    /// A use of its device, if it has one.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.inner.lock().bound.as_ref()?.another()
    }

    /// Which of the identifiers of its device it is, if it has one.
    pub(crate) fn number(&self) -> Option<u64> {
        Some(self.inner.lock().bound.as_ref()?.number)
    }

    /// A use of its device.
    ///
    /// # Errors
    ///
    /// `EINVAL` without one.
    pub(crate) fn device(&self) -> Result<Bound> {
        self.bound().ok_or(EINVAL)
    }

    /// The settings.
    pub(crate) fn settings(&self) -> Settings {
        self.inner.lock().settings
    }

    /// The identifier as far as others want its port. `None` before it has an address.
    pub(crate) fn as_owner(&self) -> Option<Owner> {
        let inner = self.inner.lock();
        let src = inner.source?;
        Some(Owner {
            src,
            dst: inner.destination.unwrap_or(Address::any(src.family())),
            reuse: inner.settings.reuse,
            family_only: inner.settings.family_only,
        })
    }
}
