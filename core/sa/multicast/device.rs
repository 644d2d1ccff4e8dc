// SPDX-License-Identifier: GPL-2.0

//! The client of the core that keeps the ports with multicast groups; it comes after the SA client.
//!
//! C header: `include/rdma/ib_sa.h`.

use kernel::{
    new_mutex,
    prelude::*,
    sync::{aref::ARef, Arc, Mutex},
};
use kernel_ext::{
    bindings as c,
    error::EOPNOTSUPP,
    sync::new_spinlock_irq,
    uses::Uses,
    work::{InstalledQueue, OwnedQueue, QueueFlags},
};
use rdma::{
    client::registration::{Client, ClientTable, Counted, Registration},
    core::{
        event::{Event, Listening, OnEvent},
        Device,
    },
    MaySleep,
};

use super::group::{McastPort, Mode, PORTS, WORKERS};

/// The client.
pub(crate) enum Groups {}

static TABLE: ClientTable<Groups> = ClientTable::new();

type OwnPorts = KVec<Arc<McastPort>>;

/// Data of a device: its ports, and their event handler.
pub(crate) struct Entry {
    ports: OwnPorts,
    listening: Pin<KBox<Mutex<Option<Listening<Listener>>>>>,
}

/// Handler of the events that end memberships.
struct Listener(OwnPorts);

impl OnEvent for Listener {
    fn event(&self, event: &Event, _sleep: &MaySleep) {
        let mode = match event.kind() {
            c::IB_EVENT_PORT_ERR | c::IB_EVENT_LID_CHANGE | c::IB_EVENT_CLIENT_REREGISTER => {
                Mode::Failed
            }
            c::IB_EVENT_PKEY_CHANGE => Mode::PkeyChanged,
            _ => return,
        };
        let mut ports = self.0.iter();
        if let Some(port) = ports.find(|port| port.port_num == event.port()) {
            port.set_mode(mode);
        }
    }
}

fn new(device: &Device, port_num: u32) -> Result<Arc<McastPort>> {
    let device = device.try_get().ok_or(ENODEV)?;
    Arc::pin_init(
        pin_init!(McastPort {
            device,
            port_num,
            groups <- new_spinlock_irq!(KVec::new(), "McastPort::groups"),
            uses <- Uses::new(),
        }),
        GFP_KERNEL,
    )
}

/// Closes ports: their groups are gone when this returns.
fn close_all(ports: &OwnPorts, sleep: &MaySleep) {
    for port in ports {
        let taken = {
            let mut all = PORTS.lock();
            let place = all.iter().position(|one| Arc::ptr_eq(one, port));
            place.and_then(|nth| all.remove(nth))
        };
        drop(taken);
        port.uses.end(sleep);
    }
}

fn open_all(device: &Device) -> Result<(OwnPorts, OwnPorts)> {
    let (mut ports, mut told) = (KVec::new(), KVec::new());
    for port_num in device.ports() {
        if device.port_caps(port_num) & c::RDMA_CORE_CAP_IB_SA != 0 {
            let port = new(device, port_num)?;
            told.push(port.clone(), GFP_KERNEL)?;
            ports.push(port, GFP_KERNEL)?;
        }
    }
    match ports.is_empty() {
        true => Err(EOPNOTSUPP),
        false => Ok((ports, told)),
    }
}

impl Client for Groups {
    type Data = Counted<Entry>;

    const NAME: &'static CStr = c"ib_multicast";
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &TABLE
    }

    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        let (ports, told) = open_all(device)?;
        let listening = Listening::new(device, Listener(told), sleep)?;
        let listening =
            KBox::pin_init(new_mutex!(Some(listening), "multicast::Entry"), GFP_KERNEL)?;
        let entry = Counted::new(Entry { ports, listening })?;
        for port in &entry.ports {
            let pushed = PORTS.lock().push(port.clone(), GFP_ATOMIC);
            if pushed.is_err() {
                close_all(&entry.ports, sleep);
                return Err(ENOMEM);
            }
        }
        Ok(entry)
    }

    fn remove(_device: &Device, data: ARef<Self::Data>, sleep: &MaySleep) {
        let listening = data.listening.lock().take();
        drop(listening);
        // SAFETY: `Started` unregisters the client, which waits for this function, before it drops the queue.
        if let Some(workers) = unsafe { WORKERS.get() } {
            workers.flush(sleep);
        }
        close_all(&data.ports, sleep);
    }
}

/// Keeps the client registered until it is dropped. Fields are dropped in this order.
pub(crate) struct Started {
    _client: Registration<Groups>,
    _workers: InstalledQueue,
}

/// Enables joins on all present and future devices until the result is dropped.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn start(sleep: &MaySleep) -> Result<Started> {
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
    let queue = OwnedQueue::new(c"ib_mcast", flags, 1, sleep)?;
    let _workers = WORKERS.install(queue);
    let _client = TABLE.register(sleep)?;
    Ok(Started { _client, _workers })
}
