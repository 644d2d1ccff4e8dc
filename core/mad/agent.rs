// SPDX-License-Identifier: GPL-2.0

//! Registering and unregistering agents (`ib_register_mad_agent`).
//!
//! IBTA specification, volume 1, section 13.4.4: management classes and the queue pairs that they use.

use core::sync::atomic::AtomicU32;

use kernel::{
    new_delayed_work,
    prelude::*,
    sync::{Arc, UniqueArc},
};
use kernel_ext::{
    bindings as c, delayed, error::EPROTONOSUPPORT, sync::new_spinlock_irq, uses::Uses,
};
use rdma::{
    core::{
        mad::{
            agent::{AgentBody, AgentHandlers, AgentInit, RegistrationRequest},
            qp::SpecialKind,
            trace,
        },
        Device,
    },
    MaySleep,
};

use super::{
    depths, dispatch,
    header::{class, has_rmpp, RMPP_VERSION},
    registry,
    rmpp::reassembly,
    security,
    state::{Agent, Client, Key, Phase, Port, Table},
};

/// Class versions are below this one.
const MAX_VERSION: u8 = 0x83;
/// Management classes are below this one, except for directed-route subnet management.
const MAX_CLASS: u8 = 80;

/// Attributes of a new agent.
pub(crate) struct AgentAttr {
    /// The queue pair of its MADs.
    pub(crate) kind: SpecialKind,
    /// The requests that it receives; `None` if it receives responses only.
    pub(crate) request: Option<RegistrationRequest>,
    /// The version of RMPP; 0 for an agent without RMPP.
    pub(crate) rmpp_version: u8,
    /// `IB_MAD_USER_RMPP`.
    pub(crate) flags: u32,
    /// Whether its client has a receive handler and a send handler.
    pub(crate) receives: bool,
    pub(crate) sends: bool,
}

/// Whether the capabilities of a port include the queue pair of a kind.
fn has_qp(device: &Device, port_num: u32, kind: SpecialKind) -> bool {
    let needed = match kind {
        SpecialKind::Smi => c::RDMA_CORE_CAP_IB_SMI,
        SpecialKind::Gsi => c::RDMA_CORE_CAP_IB_CM,
    };
    device.port_caps(port_num) & needed != 0
}

/// Whether the registration request is valid.
fn is_valid(wanted: &AgentAttr, request: &RegistrationRequest) -> bool {
    let mgmt_class = request.mgmt_class();
    let is_smp = matches!(
        mgmt_class,
        class::SUBN_LID_ROUTED | class::SUBN_DIRECTED_ROUTE
    );
    let is_class = (1..MAX_CLASS).contains(&mgmt_class) || is_smp;
    let lacks_vendor = class::VENDOR_RANGE2.contains(&mgmt_class) && request.oui() == [0; 3];
    request.class_version() < MAX_VERSION
        && wanted.receives
        && is_class
        && !lacks_vendor
        && (wanted.rmpp_version == 0 || has_rmpp(mgmt_class))
        && is_smp == (wanted.kind == SpecialKind::Smi)
}

/// The limit for outstanding requests of an agent: a fraction of its peer's receive queue.
fn max_outstanding(wanted: &AgentAttr) -> u32 {
    let most = depths::get().recv;
    let default = most / 4;
    match wanted.request.map(|request| request.mgmt_class()) {
        _ if !wanted.receives => 0,
        None | Some(class::CM) => default,
        Some(class::SUBN_ADM) => most / 32,
        Some(class::SUBN_LID_ROUTED | class::SUBN_DIRECTED_ROUTE) => {
            most.min(depths::RECV_DEFAULT) / 4
        }
        Some(_) => 0,
    }
}

fn new(
    port: &Arc<Port>,
    wanted: &AgentAttr,
    client: Client,
    handlers: AgentHandlers,
) -> Result<Pin<UniqueArc<Agent>>> {
    let qp = port.qp(wanted.kind).ok_or(EPROTONOSUPPORT)?.clone();
    let make = |raw: &rdma::core::Qp| {
        let init = AgentInit {
            device: &port.device,
            qp: raw,
            port_num: port.port_num,
            rmpp_version: wanted.rmpp_version,
            flags: wanted.flags,
        };
        AgentBody::new(&init, wanted.request, handlers)
    };
    let body = qp.with(make).ok_or(ENODEV)?;
    let table = Table::new()?;
    UniqueArc::pin_init(
        pin_init!(Agent {
            body,
            port: port.clone(),
            qp,
            registration: wanted.request,
            client,
            receives: wanted.receives,
            max_outstanding: max_outstanding(wanted),
            held: AtomicU32::new(0),
            uses <- Uses::new(),
            table <- new_spinlock_irq!(table, "Agent::table"),
            timer <- new_delayed_work!("Agent"),
        }),
        GFP_KERNEL,
    )
}

/// Registers an agent at an open port.
///
/// # Errors
///
/// As for `ib_register_mad_agent`.
pub(crate) fn register_at(
    port: &Arc<Port>,
    wanted: &AgentAttr,
    client: Client,
    handlers: AgentHandlers,
    sleep: &MaySleep,
) -> Result<Arc<Agent>> {
    let mut agent = new(port, wanted, client, handlers)?;
    AgentBody::link(agent.as_mut(), wanted.request.is_some());
    if security::is_asked(&agent) {
        AgentBody::note_security(agent.as_mut(), sleep)?;
    }
    let agent: Arc<Agent> = agent.into();
    let may = match security::is_asked(&agent) && wanted.kind == SpecialKind::Smi {
        true => agent.body.may_manage_subnet(),
        false => Ok(()),
    };
    let added = may.and_then(|()| registry::add_agent(&agent));
    let registered = added.and_then(|()| match wanted.request {
        Some(request) => dispatch::register(&agent, request),
        None => Ok(()),
    });
    if let Err(error) = registered {
        withdraw(&agent);
        return Err(error);
    }
    trace::ib_mad_create_agent(&agent.body);
    Ok(agent)
}

/// Validates the client's request and registers the agent.
///
/// # Errors
///
/// As for `ib_register_mad_agent`.
pub(crate) fn register(
    device: &Device,
    port_num: u32,
    wanted: &AgentAttr,
    client: Client,
    handlers: AgentHandlers,
    sleep: &MaySleep,
) -> Result<Arc<Agent>> {
    if !has_qp(device, port_num, wanted.kind) {
        return Err(EPROTONOSUPPORT);
    }
    let is_valid = match &wanted.request {
        Some(request) => is_valid(wanted, request),
        None => wanted.sends && wanted.flags & c::IB_MAD_USER_RMPP == 0,
    };
    if !is_valid || !matches!(wanted.rmpp_version, 0 | RMPP_VERSION) {
        return Err(EINVAL);
    }
    let open = registry::find_port(device, port_num).ok_or(ENODEV)?;
    register_at(&open.port, wanted, client, handlers, sleep)
}

/// Removes an agent from dispatch: it receives no more MADs.
fn withdraw(agent: &Arc<Agent>) {
    dispatch::unregister(agent);
    registry::remove_agent(agent);
}

/// Cancels all posted MADs of an agent: those with the queue pair are returned on completion, the others now.
fn cancel_all(agent: &Arc<Agent>, sleep: &MaySleep) {
    let mut last: Option<Key> = None;
    loop {
        let mut table = agent.table.lock();
        table.closed = true;
        let Some(key) = table.first_key(last) else {
            return;
        };
        last = Some(key);
        let phase = table.get(&key).map(|entry| entry.phase);
        if phase == Some(Phase::Sending) {
            table.update(&key, |entry| entry.canceled = true);
            continue;
        }
        let canceled = table.remove(&key);
        drop(table);
        if let Some(canceled) = canceled {
            agent.give_back(canceled.origin, c::IB_WC_WR_FLUSH_ERR, 0, sleep);
        }
    }
}

/// Unregisters an agent. When this returns, its client is not called any more and all its MADs have been returned.
pub(crate) fn unregister(agent: &Arc<Agent>, sleep: &MaySleep) {
    trace::ib_mad_unregister_agent(&agent.body);
    cancel_all(agent, sleep);
    dispatch::unregister(agent);
    registry::remove_agent(agent);
    agent.port.workers.flush(sleep);
    delayed::cancel_sync(agent, sleep);
    return_undelivered(agent, sleep);
    agent.uses.end(sleep);
    reassembly::end(agent, sleep);
}

/// Returns the locally handled SMPs of an agent whose work was canceled.
fn return_undelivered(agent: &Arc<Agent>, sleep: &MaySleep) {
    let rest = core::mem::take(&mut agent.table.lock().local);
    for local in rest {
        drop(local.received);
        agent.give_back(local.origin, c::IB_WC_WR_FLUSH_ERR, 0, sleep);
    }
}
