// SPDX-License-Identifier: GPL-2.0

//! Data of a device's counters for queue pairs.
//!
//! C header: `include/rdma/rdma_counter.h`.

use kernel::{new_mutex, prelude::*, sync::Mutex};
use rdma::core::counter::{CounterMode, OwnedCounter};

/// The binding mode of a port.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) mode: CounterMode,
    /// Whether new counters include the optional hardware counters.
    pub(crate) with_optional: bool,
}

/// Data of a port.
pub(super) struct Port {
    pub(super) number: u32,
    pub(super) mode: Mode,
    /// Sums of removed counters. `None` if the driver has no port counters.
    pub(super) history: Option<KVec<u64>>,
}

/// A counter, and the number of queue pairs bound to it: at least one.
pub(super) struct BoundCounter {
    pub(super) counter: OwnedCounter,
    pub(super) users: u32,
}

/// The counters of a device.
pub(super) struct State {
    pub(super) ports: KVec<Port>,
    pub(super) live: KVec<BoundCounter>,
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
