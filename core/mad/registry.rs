// SPDX-License-Identifier: GPL-2.0

//! The open ports, and the agents by number.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `LAYER` | the ports, and the agents by number | any context | nothing |
//!
//! C header: `include/rdma/ib_mad.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::{static_lock::static_lock, static_vec::StaticVec};
use rdma::core::{mad::qp::SpecialKind, Device, DeviceMemory};

use super::state::{Agent, AgentUse, Port};

/// The open ports, and the agents by number.
struct Registry {
    ports: StaticVec<OpenPort>,
    agents: StaticVec<Arc<Agent>>,
    next_number: u32,
}

/// An open port and the core's agents there.
#[derive(Clone)]
pub(crate) struct OpenPort {
    pub(crate) port: Arc<Port>,
    /// For QP0 and QP1.
    pub(crate) responders: [Option<Arc<Agent>>; 2],
}

impl OpenPort {
    /// The core's agent on the queue pair of a kind.
    pub(crate) fn responder(&self, kind: SpecialKind) -> Option<&Arc<Agent>> {
        self.responders
            .iter()
            .flatten()
            .find(|agent| agent.qp.kind() == kind)
    }
}

/// Agent numbers are below: the mlx4 driver uses the upper 8 bits.
const MAX_AGENTS: u32 = 1 << 24;

static_lock! {
    static LAYER: SpinLockIrq<Registry> = Registry {
        ports: StaticVec::new(),
        agents: StaticVec::new(),
        next_number: 0,
    };
}

/// The open port of a device. Any context.
pub(crate) fn find_port(device: &DeviceMemory, port_num: u32) -> Option<OpenPort> {
    let registry = LAYER.lock();
    let mut ports = registry.ports.iter();
    ports.find(|open| is(&open.port, device, port_num)).cloned()
}

fn is(port: &Port, device: &DeviceMemory, port_num: u32) -> bool {
    port.port_num == port_num && core::ptr::eq(&**port.device, device)
}

/// Registers a port.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn add_port(port: Arc<Port>) -> Result {
    let open = OpenPort {
        port,
        responders: [const { None }; 2],
    };
    LAYER.lock().ports.push(open, GFP_ATOMIC)
}

/// Sets the core's agents of a port.
pub(crate) fn set_responders(port: &Arc<Port>, responders: [Option<Arc<Agent>>; 2]) {
    let mut registry = LAYER.lock();
    let mut ports = registry.ports.iter_mut();
    if let Some(open) = ports.find(|open| Arc::ptr_eq(&open.port, port)) {
        open.responders = responders;
    }
}

/// Unregisters a port.
pub(crate) fn remove_port(device: &Device, port_num: u32) -> Option<OpenPort> {
    let mut registry = LAYER.lock();
    let nth = registry
        .ports
        .iter()
        .position(|open| is(&open.port, device, port_num))?;
    registry.ports.remove(nth)
}

/// Assigns an agent its number.
///
/// # Errors
///
/// `ENOMEM`; `ENOSPC` where all numbers are in use.
pub(crate) fn add_agent(agent: &Arc<Agent>) -> Result {
    let mut registry = LAYER.lock();
    let mut number = registry.next_number;
    for _ in 0..=registry.agents.len() {
        // 0 is never assigned, so that a transaction ID without an agent matches none.
        number = match number {
            0 | MAX_AGENTS.. => 1,
            number => number,
        };
        let search = |agent: &Arc<Agent>| agent.body.hi_tid();
        if let Err(place) = registry.agents.binary_search_by_key(&number, search) {
            agent.body.set_hi_tid(number);
            let slot = registry.agents.reserve(GFP_ATOMIC)?;
            slot.insert(place, agent.clone());
            registry.next_number = number.wrapping_add(1);
            return Ok(());
        }
        number = number.wrapping_add(1);
    }
    Err(ENOSPC)
}

/// Unregisters the number of an agent.
pub(crate) fn remove_agent(agent: &Agent) {
    let mut registry = LAYER.lock();
    let number = agent.body.hi_tid();
    let found = registry
        .agents
        .binary_search_by_key(&number, |agent| agent.body.hi_tid());
    let taken = found.ok().and_then(|nth| registry.agents.remove(nth));
    drop(registry);
    drop(taken);
}

/// The agent with a number. Any context.
pub(crate) fn find_agent(number: u32) -> Option<AgentUse> {
    let registry = LAYER.lock();
    let found = registry
        .agents
        .binary_search_by_key(&number, |agent| agent.body.hi_tid());
    registry.agents.get(found.ok()?)?.try_use()
}
