// SPDX-License-Identifier: GPL-2.0

//! What is kept of each device for those who are told of it, and of each port.

use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{aref::ARef, CondVar, Mutex},
};
use kernel_ext::{
    net::device::NetDevice,
    sync::{new_spinlock_irq, SpinLockIrq},
};
use rdma::view::{
    client::ClientRef,
    event::{Event, HandlerList, HandlerRef},
};

/// Names the present thread, as long as it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskId(usize);

impl TaskId {
    /// The thread that calls.
    pub(super) fn current() -> Self {
        Self(core::ptr::from_ref(&**kernel::current!()).addr())
    }
}

/// Where a client and a device are with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `add` runs.
    Adding,
    /// `add` has succeeded.
    Added,
    /// `add` has failed: the client does not have the device.
    Refused,
    /// `remove` runs, or waits for other callbacks to end.
    Removing,
}

/// What there is between a device and a client.
pub(super) struct Binding {
    pub(super) client: ClientRef,
    pub(super) phase: Phase,
    /// How many other callbacks run.
    pub(super) calls: u32,
}

/// What a mutex of [`Bindings`] protects.
pub(super) struct BindingsState {
    /// The device takes clients.
    pub(super) open: bool,
    /// Who is at adding clients.
    pub(super) adder: Option<TaskId>,
    /// By ascending number of the client.
    pub(super) list: KVec<Binding>,
}

/// The clients of a device.
#[pin_data]
pub(crate) struct Bindings {
    #[pin]
    pub(super) state: Mutex<BindingsState>,
    /// A phase has changed, or a callback has ended.
    #[pin]
    pub(super) progress: CondVar,
}

impl Bindings {
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = BindingsState {
            open: false,
            adder: None,
            list: KVec::new(),
        };
        pin_init!(Self {
            state <- new_mutex!(state, "Bindings::state"),
            progress <- new_condvar!("Bindings::progress"),
        })
    }
}

/// A delivery that goes on.
pub(super) struct Delivery {
    pub(super) by: TaskId,
    /// The handler that runs now.
    pub(super) running: HandlerRef,
    /// The handler to call next.
    pub(super) next: Option<HandlerRef>,
}

/// What a mutex of [`Handlers`] protects.
#[derive(Default)]
pub(super) struct HandlersState {
    pub(super) list: HandlerList,
    pub(super) delivery: Option<Delivery>,
    /// What handlers of this delivery have caused: it is delivered after it, by the same thread.
    pub(super) caused: KVec<Event>,
}

/// The event handlers of a device.
#[pin_data]
pub(crate) struct Handlers {
    #[pin]
    pub(super) state: Mutex<HandlersState>,
    /// A delivery, or a handler of one, has ended.
    #[pin]
    pub(super) progress: CondVar,
}

impl Handlers {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state <- new_mutex!(HandlersState::default(), "Handlers::state"),
            progress <- new_condvar!("Handlers::progress"),
        })
    }
}

/// The net device of a port, referenced.
#[pin_data]
pub(crate) struct PortNetdev {
    #[pin]
    pub(super) ndev: SpinLockIrq<Option<ARef<NetDevice>>>,
}

impl PortNetdev {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ndev <- new_spinlock_irq!(None, "PortNetdev::ndev"),
        })
    }
}
