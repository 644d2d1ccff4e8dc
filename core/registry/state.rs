// SPDX-License-Identifier: GPL-2.0

//! Data of a device's clients and event handlers, and of a port's net device.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::{
    new_condvar, new_mutex,
    prelude::*,
    sync::{aref::ARef, CondVar, Mutex},
};
use kernel_ext::{
    net::device::NetDevice,
    sync::{new_spinlock_irq, SpinLockIrq},
};
use rdma::core::{
    client::ClientRef,
    event::{Event, HandlerList, HandlerRef},
};

/// Identifies a task as long as it runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TaskId(usize);

impl TaskId {
    /// The current task.
    pub(super) fn current() -> Self {
        Self(core::ptr::from_ref(&**kernel::current!()).addr())
    }
}

/// Phase of a client and a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// `add` runs.
    Adding,
    /// `add` has succeeded.
    Added,
    /// `add` has failed: the client does not have the device.
    Refused,
    /// `remove` runs, or waits until other callbacks return.
    Removing,
}

/// The relation of a device and a client.
pub(super) struct Binding {
    pub(super) client: ClientRef,
    pub(super) phase: Phase,
    /// Number of running callbacks other than `add` and `remove`.
    pub(super) calls: u32,
}

/// Data protected by the mutex of [`Bindings`].
pub(super) struct BindingsState {
    /// Whether clients may be added.
    pub(super) open: bool,
    /// The task that adds clients.
    pub(super) adder: Option<TaskId>,
    /// In ascending order of the clients' IDs.
    pub(super) list: KVec<Binding>,
}

/// The clients of a device.
#[pin_data]
pub(crate) struct Bindings {
    #[pin]
    pub(super) state: Mutex<BindingsState>,
    /// A phase has changed, or a callback has returned.
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

/// A running delivery.
pub(super) struct Delivery {
    pub(super) by: TaskId,
    /// The running handler.
    pub(super) running: HandlerRef,
    /// The next handler.
    pub(super) next: Option<HandlerRef>,
}

/// Data protected by the mutex of [`Handlers`].
#[derive(Default)]
pub(super) struct HandlersState {
    pub(super) list: HandlerList,
    pub(super) delivery: Option<Delivery>,
    /// Events that handlers of the delivery have raised; they are delivered afterwards, by the same thread.
    pub(super) raised: KVec<Event>,
}

/// The event handlers of a device.
#[pin_data]
pub(crate) struct Handlers {
    #[pin]
    pub(super) state: Mutex<HandlersState>,
    /// A delivery, or one of its handlers, has ended.
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

/// A reference to the net device of a port.
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
