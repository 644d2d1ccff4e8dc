// SPDX-License-Identifier: GPL-2.0

//! The client of the core that keeps the ports of subnets with an SA; it comes after the MAD client.
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel::{
    new_delayed_work, new_mutex, new_work,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};
use kernel_ext::{bindings as c, delayed, error::EOPNOTSUPP, sleepable, sync::new_spinlock_irq};
use rdma::{
    client::registration::{Client as DeviceClient, ClientTable, Counted, Registration},
    core::{
        event::{Event, Listening, OnEvent},
        mad::{agent::AgentHandlers, qp::SpecialKind},
        Device,
    },
    MaySleep,
};

use super::{
    address, local_service,
    query::SaMadClient,
    state::{Capabilities, SaPort, ADMINISTRATION},
};
use crate::mad::{
    agent::{self, AgentAttr},
    header::RMPP_VERSION,
    state::Client,
};

/// The client.
pub(super) enum Ports {}

static TABLE: ClientTable<Ports> = ClientTable::new();

/// The ports of a device.
type OwnPorts = KVec<Arc<SaPort>>;

/// Data of a device: its ports, and their event handler.
pub(super) struct Entry {
    ports: OwnPorts,
    listening: Pin<KBox<Mutex<Option<Listening<Listener>>>>>,
}

/// Handler of the events that may change the SA.
struct Listener(OwnPorts);

impl OnEvent for Listener {
    fn event(&self, event: &Event, _sleep: &MaySleep) {
        let is_another = match event.kind() {
            c::IB_EVENT_SM_CHANGE
            | c::IB_EVENT_CLIENT_REREGISTER
            | c::IB_EVENT_LID_CHANGE
            | c::IB_EVENT_PORT_ACTIVE => true,
            c::IB_EVENT_PORT_ERR | c::IB_EVENT_PKEY_CHANGE => false,
            _ => return,
        };
        let mut ports = self.0.iter();
        if let Some(port) = ports.find(|port| port.port_num == event.port()) {
            address::changed(port, is_another);
        }
    }
}

/// Opens a port.
fn open(device: &Device, port_num: u32, sleep: &MaySleep) -> Result<Arc<SaPort>> {
    let registered = device.try_get().ok_or(ENODEV)?;
    let wanted = AgentAttr {
        kind: SpecialKind::Gsi,
        request: None,
        rmpp_version: RMPP_VERSION,
        flags: 0,
        receives: true,
        sends: true,
    };
    let client = Client::Core(Arc::new(SaMadClient, GFP_KERNEL)?);
    let none = AgentHandlers::NONE;
    let agent = agent::register(device, port_num, &wanted, client, none, sleep)?;
    let is_opa = device.port_caps(port_num) & c::RDMA_CORE_CAP_OPA_AH != 0;
    let own = agent.clone();
    let made = Arc::pin_init(
        pin_init!(SaPort {
            device: registered,
            port_num,
            is_opa,
            agent: own,
            address <- new_spinlock_irq!(None, "SaPort::address"),
            capabilities <- new_spinlock_irq!(Capabilities::default(), "SaPort::capabilities"),
            update <- new_work!("SaPort::update"),
            query_capabilities <- new_delayed_work!("SaPort::query_capabilities"),
        }),
        GFP_KERNEL,
    );
    made.inspect_err(|_| agent::unregister(&agent, sleep))
}

/// Closes a port: all its queries have completed when this returns.
fn close(port: &Arc<SaPort>, sleep: &MaySleep) {
    let taken = {
        let mut all = ADMINISTRATION.lock();
        let place = all.ports.iter().position(|one| Arc::ptr_eq(one, port));
        place.and_then(|nth| all.ports.remove(nth))
    };
    drop(taken);
    local_service::end(port, sleep);
    sleepable::cancel_sync::<_, 1>(port, sleep);
    delayed::cancel_sync::<_, 2>(port, sleep);
    agent::unregister(&port.agent, sleep);
    // The completion of the ClassPortInfo query may have scheduled a retry.
    delayed::cancel_sync::<_, 2>(port, sleep);
    let address = port.address.lock().take();
    drop(address);
}

fn close_all(ports: &OwnPorts, sleep: &MaySleep) {
    for port in ports {
        close(port, sleep);
    }
}

/// Opens and registers all ports of a device that have an SA.
fn open_all(device: &Device, ports: &mut OwnPorts, sleep: &MaySleep) -> Result {
    for port_num in device.ports() {
        if device.port_caps(port_num) & c::RDMA_CORE_CAP_IB_SA == 0 {
            continue;
        }
        ports.reserve(1, GFP_KERNEL)?;
        let port = open(device, port_num, sleep)?;
        // Capacity was reserved.
        let _ = ports.push_within_capacity(port.clone());
        ADMINISTRATION.lock().ports.push(port, GFP_ATOMIC)?;
    }
    if ports.is_empty() {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// A copy of the list.
fn copy(ports: &OwnPorts) -> Result<OwnPorts> {
    let mut all = KVec::with_capacity(ports.len(), GFP_KERNEL)?;
    for port in ports {
        all.push(port.clone(), GFP_KERNEL)?;
    }
    Ok(all)
}

/// Registers the event handler and then finds the SAs, in this order, so that no change is missed.
fn start(device: &Device, ports: &OwnPorts, sleep: &MaySleep) -> Result<ARef<Counted<Entry>>> {
    let listening = Listening::new(device, Listener(copy(ports)?), sleep)?;
    for port in ports {
        address::update(port, sleep);
    }
    Counted::new(Entry {
        ports: copy(ports)?,
        listening: KBox::pin_init(new_mutex!(Some(listening), "sa::Entry"), GFP_KERNEL)?,
    })
}

impl DeviceClient for Ports {
    type Data = Counted<Entry>;

    const NAME: &'static CStr = c"sa";
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &TABLE
    }

    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let mut ports = KVec::new();
        let opened = open_all(device, &mut ports, sleep);
        let entry = opened.and_then(|()| start(device, &ports, sleep));
        entry.inspect_err(|_| close_all(&ports, sleep))
    }

    fn remove(_device: &Device, data: ARef<Self::Data>, sleep: &MaySleep) {
        let listening = data.listening.lock().take();
        drop(listening);
        close_all(&data.ports, sleep);
    }
}

/// Finds the SAs of all present and future devices until the result is dropped.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn start_client(sleep: &MaySleep) -> Result<Registration<Ports>> {
    TABLE.register(sleep)
}
