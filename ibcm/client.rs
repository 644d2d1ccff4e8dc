// SPDX-License-Identifier: GPL-2.0

//! The client of ib_core: for each port with a connection manager two agents, the counters in sysfs, and the port's capability.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{fmt::Write, sync::atomic::Ordering};

use ib_cm_protocol::{
    counters::{self, Group},
    messages::{Attribute, CLASS_VERSION, MGMT_CLASS},
};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::{
    bindings::{IB_MGMT_METHOD_SEND, IB_PORT_CM_SUP},
    error::EOPNOTSUPP,
    sysfs::{Name, Text},
};
use rdma::{
    client::{
        attachment::{Attached, Client, Table},
        mad::{AgentRef, Handlers, Pending, Received, Registration, Requests, Sent, SpecialQp},
        port_files::PortFiles,
    },
    core::sysfs::{AttrContext, Behaviour},
    MaySleep,
};

use crate::{
    id::Ticket,
    port::{find, Agent, Agents, Ends, Port, PORTS},
    receive,
};

impl Handlers for Ends {
    type Token = Arc<Pending<Ticket>>;

    fn sent(&self, pending: Self::Token, sent: Sent<Self::Token>, _sleep: &MaySleep) {
        let Some(ticket) = pending.take() else {
            return;
        };
        let (messages, retries) = counters::sent(sent.retries(), ticket.is_resent);
        self.0.count(Group::Sent, ticket.attribute, messages);
        self.0.count(Group::Retries, ticket.attribute, retries);
        let status = sent.status();
        // The message is freed before its sender hears of it.
        drop(sent);
        if let Some((id, serial)) = ticket.waits {
            id.message_ended(serial, status);
        }
    }

    fn received(&self, _agent: &AgentRef<'_>, message: Received, sleep: &MaySleep) {
        receive::message(&self.0, message, sleep);
    }
}

/// The methods that the agent receives: SEND alone.
const METHODS: [u64; 2] = [1 << IB_MGMT_METHOD_SEND, 0];

fn register(
    device: &Attached,
    port: &Arc<Port>,
    requests: Option<Requests>,
    sleep: &MaySleep,
) -> Result<Agent> {
    let registration = Registration {
        port: port.number,
        qp: SpecialQp::Gsi,
        requests,
        rmpp_version: 0,
        flags: 0,
    };
    let device = device.another().ok_or(ENODEV)?;
    Agent::register(device, &registration, Ends(port.clone()), sleep)
}

/// Opens a port of a device.
fn open(device: &Attached, number: u32, sleep: &MaySleep) -> Result<Arc<Port>> {
    let port = Port::new(device, number)?;
    let groups = Group::ALL.into_iter().map(|group| {
        let first = group.index().wrapping_mul(Attribute::ALL.len());
        let files = Attribute::ALL.into_iter().map(move |message| {
            let index = first.wrapping_add(message.index()) as u32;
            Behaviour::numbered(Name::text(counters::name(message)), show, index)
        });
        (group.name(), files)
    });
    let device = device.another().ok_or(ENODEV)?;
    let files = PortFiles::new(&device, number, groups, sleep)?;
    let requests = Requests {
        class: MGMT_CLASS,
        class_version: CLASS_VERSION,
        oui: [0; 3],
        methods: METHODS,
    };
    let agents = Agents {
        usual: register(&device, &port, Some(requests), sleep)?,
        replies: register(&device, &port, None, sleep)?,
        _files: files,
        device,
    };
    let announced = agents.device.modify_port(number, IB_PORT_CM_SUP, 0, sleep);
    *port.agents.lock() = Some(agents);
    let listed = PORTS.lock().push(port.clone(), GFP_KERNEL);
    let opened = announced.and(listed);
    match opened {
        Ok(()) => Ok(port),
        Err(error) => {
            close(&port, sleep);
            Err(error)
        }
    }
}

/// Closes a port: nothing of it uses the device any more.
fn close(port: &Arc<Port>, sleep: &MaySleep) {
    let mut ports = PORTS.lock();
    if let Some(place) = ports.iter().position(|other| Arc::ptr_eq(other, port)) {
        drop(ports.remove(place));
    }
    drop(ports);
    // Unregistering waits for handlers, which take the lock.
    let agents = port.agents.lock().take();
    if let Some(agents) = agents {
        // The driver may have no such capability.
        let _ = agents
            .device
            .modify_port(port.number, 0, IB_PORT_CM_SUP, sleep);
        receive::close(port, sleep);
    }
}

/// Shows a counter.
fn show(context: &AttrContext<'_>, text: &mut Text<'_>, _sleep: &MaySleep) -> Result {
    let port = find(context.device, context.port).ok_or(EINVAL)?;
    let mut all = port.counters.iter().flatten();
    let counter = all.nth(context.index as usize).ok_or(EINVAL)?;
    writeln!(text, "{}", counter.load(Ordering::Relaxed)).map_err(|_| EINVAL)
}

/// The client.
pub(crate) struct Cm;

/// Its registration.
pub(crate) static TABLE: Table<Cm> = Table::new();

impl Client for Cm {
    type Data = KVec<Arc<Port>>;

    const NAME: &'static CStr = c"cm";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add(device: &Attached, sleep: &MaySleep) -> Result<Self::Data> {
        let mut ports: KVec<Arc<Port>> = KVec::new();
        for number in device.ports().filter(|&port| device.has_ib_cm(port)) {
            let made = open(device, number, sleep).and_then(|port| {
                let kept = ports.push(port.clone(), GFP_KERNEL);
                kept.map_err(Error::from)
                    .inspect_err(|_| close(&port, sleep))
            });
            if let Err(error) = made {
                ports.iter().for_each(|port| close(port, sleep));
                return Err(error);
            }
        }
        match ports.is_empty() {
            true => Err(EOPNOTSUPP),
            false => Ok(ports),
        }
    }

    fn remove(ports: &Self::Data, sleep: &MaySleep) {
        ports.iter().for_each(|port| close(port, sleep));
    }
}
