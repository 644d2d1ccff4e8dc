// SPDX-License-Identifier: GPL-2.0

//! What is kept of the counters of a device that queue pairs are bound to.

use kernel::{new_mutex, prelude::*, sync::Mutex};
use rdma::core::counter::{CounterMode, OwnedCounter};

/// How the queue pairs of a port are bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) mode: CounterMode,
    /// New counters have the optional counters too.
    pub(crate) with_optional: bool,
}

/// A port.
pub(super) struct Port {
    pub(super) number: u32,
    pub(super) mode: Mode,
    /// What counters had counted that are gone. `None` where the driver has no counters of ports.
    pub(super) history: Option<KVec<u64>>,
}

/// A counter, and how many queue pairs are bound to it: at least one.
pub(super) struct Live {
    pub(super) counter: OwnedCounter,
    pub(super) users: u32,
}

/// The counters of a device.
pub(super) struct State {
    pub(super) ports: KVec<Port>,
    pub(super) live: KVec<Live>,
}

/// The counters of a device that queue pairs are bound to.
#[pin_data]
pub(crate) struct DeviceState {
    #[pin]
    pub(super) state: Mutex<State>,
}

impl DeviceState {
    pub(crate) fn new() -> impl PinInit<Self> {
        let empty = State {
            ports: KVec::new(),
            live: KVec::new(),
        };
        pin_init!(Self {
            state <- new_mutex!(empty, "counters::DeviceState::state"),
        })
    }
}
