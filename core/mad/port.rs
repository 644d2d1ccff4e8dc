// SPDX-License-Identifier: GPL-2.0

//! Opening the ports of a device for MADs, and closing them: the first client of the core.
//!
//! C header: `include/rdma/ib_mad.h`.

use kernel::{
    new_mutex, new_work,
    prelude::*,
    str::CString,
    sync::{aref::ARef, Arc, Mutex},
};
use kernel_ext::{
    bindings as c,
    error::EOPNOTSUPP,
    sync::new_spinlock_irq,
    work::{OwnedQueue, QueueFlags},
};
use rdma::{
    client::registration::{Client as DeviceClient, ClientTable, Counted, Registration},
    core::{
        mad::{
            agent::AgentHandlers,
            qp::{Depths, SpecialKind, SpecialQps},
            recv::RecvMad,
        },
        Device,
    },
    MaySleep,
};

use super::{
    agent::{self, AgentAttr},
    depths,
    header::{MAD_SIZE, OPA_MAD_SIZE},
    outbox::Queue,
    registry::{self, OpenPort},
    respond::{self, Responder},
    state::{Agent, Client, Layer, Port},
};
use crate::gid::cache;

/// The P_Key of full members of the default partition.
const DEFAULT_PKEY: u16 = 0xffff;

/// An open port and its special queue pairs.
pub(super) struct PortQps {
    port_num: u32,
    qps: SpecialQps<Layer>,
}

/// The client that opens ports.
pub(super) enum Ports {}

static TABLE: ClientTable<Ports> = ClientTable::new();

/// The open ports of a device.
type DevicePorts = Pin<KBox<Mutex<KVec<PortQps>>>>;

/// The special queue pairs of a port with these capabilities.
fn kinds_of(caps: u32) -> KVec<SpecialKind> {
    let mut kinds = KVec::new();
    let all = [
        (c::RDMA_CORE_CAP_IB_SMI, SpecialKind::Smi),
        (c::RDMA_CORE_CAP_IB_CM, SpecialKind::Gsi),
    ];
    for (needed, kind) in all {
        if caps & needed != 0 {
            // If memory is short here, creating the queue pairs fails too, and the port is not opened.
            let _ = kinds.push(kind, GFP_KERNEL);
        }
    }
    kinds
}

/// Maximum length of a MAD of a port, in bytes.
fn mad_size(device: &Device, port_num: u32, is_opa: bool) -> Result<usize> {
    let immutable = device.immutable(port_num).ok_or(EINVAL)?;
    let size = immutable.max_mad_size as usize;
    let least = if is_opa { OPA_MAD_SIZE } else { MAD_SIZE };
    if size < least {
        return Err(EFAULT);
    }
    Ok(least)
}

/// Creates the queue pairs of a port by `make`, and registers it.
fn open(
    device: &Device,
    port_num: u32,
    make: impl FnOnce(&[SpecialKind], Depths) -> Result<SpecialQps<Layer>>,
    sleep: &MaySleep,
) -> Result<PortQps> {
    let caps = device.port_caps(port_num);
    let is_opa = caps & c::RDMA_CORE_CAP_OPA_MAD != 0;
    let mad_size = mad_size(device, port_num, is_opa)?;
    let qps = make(&kinds_of(caps), depths::get())?;
    let mut opened = PortQps { port_num, qps };
    let started = start(device, &opened, is_opa, mad_size, sleep);
    if let Err(error) = started {
        close(device, &mut opened, sleep);
        return Err(error);
    }
    Ok(opened)
}

/// Registers a port and starts its queue pairs.
fn start(
    device: &Device,
    opened: &PortQps,
    is_opa: bool,
    mad_size: usize,
    sleep: &MaySleep,
) -> Result {
    let port_num = opened.port_num;
    let name = CString::try_from_fmt(fmt!("ib_mad{port_num}"))?;
    let flags = QueueFlags::UNBOUND | QueueFlags::ORDERED | QueueFlags::MEM_RECLAIM;
    let workers = OwnedQueue::new(&name, flags, 1, sleep)?;
    let answerer = OwnedQueue::new(c"ib_mad_answer", flags, 1, sleep)?;
    let registered = device.try_get().ok_or(ENODEV)?;
    let qp = |kind| opened.qps.get(kind).cloned();
    let port = Arc::pin_init(
        pin_init!(Port {
            device: registered,
            port_num,
            is_opa,
            mad_size,
            qps: [qp(SpecialKind::Smi), qp(SpecialKind::Gsi)],
            registrations <- new_spinlock_irq!(KVec::new(), "Port::registrations"),
            workers,
            answerer,
            answers <- new_spinlock_irq!(Some(KVec::new()), "Port::answers"),
            answering <- new_work!("mad::Port"),
        }),
        GFP_KERNEL,
    )?;
    registry::add_port(port.clone())?;
    let pkey = cache::of(device, port_num).and_then(|port| {
        let found = port.known.with(|known| known.find_pkey(DEFAULT_PKEY));
        found.flatten()
    });
    opened.qps.start(pkey.unwrap_or(0), sleep)?;
    for qp in opened.qps.iter() {
        while qp.free_receives() != 0 {
            qp.post_recv(RecvMad::new(mad_size, GFP_KERNEL)?)?;
        }
    }
    registry::set_responders(&port, responders(&port, sleep)?);
    Ok(())
}

/// Registers the agents that send responses for the core.
fn responders(port: &Arc<Port>, sleep: &MaySleep) -> Result<[Option<Arc<Agent>>; 2]> {
    let mut responders = [const { None }; 2];
    let kinds = [SpecialKind::Smi, SpecialKind::Gsi];
    for (place, kind) in responders.iter_mut().zip(kinds) {
        if port.qp(kind).is_none() {
            continue;
        }
        let wanted = AgentAttr {
            kind,
            request: None,
            rmpp_version: 0,
            flags: 0,
            receives: false,
            sends: true,
        };
        let client = Client::Core(Arc::new(Responder, GFP_KERNEL)?);
        let made = agent::register_at(port, &wanted, client, AgentHandlers::NONE, sleep);
        match made {
            Ok(made) => *place = Some(made),
            Err(error) => {
                end(&responders, sleep);
                return Err(error);
            }
        }
    }
    Ok(responders)
}

fn end(responders: &[Option<Arc<Agent>>; 2], sleep: &MaySleep) {
    for responder in responders.iter().flatten() {
        agent::unregister(responder, sleep);
    }
}

/// Closes a port. All its agents are unregistered: later clients are removed first.
fn close(device: &Device, opened: &mut PortQps, sleep: &MaySleep) {
    let gone: Option<OpenPort> = registry::remove_port(device, opened.port_num);
    if let Some(gone) = &gone {
        respond::close(&gone.port, sleep);
        end(&gone.responders, sleep);
    }
    if let Err(error) = opened.qps.close(sleep) {
        pr_warn!("a special queue pair stays: {:?}\n", error);
    }
}

impl DeviceClient for Ports {
    type Data = Counted<DevicePorts>;

    const NAME: &'static CStr = c"mad";
    const ANY_DEVICE: bool = false;

    fn table() -> &'static ClientTable<Self> {
        &TABLE
    }

    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        // Before the ports are opened: an open port must be closed, not dropped.
        let empty = new_mutex!(KVec::new(), "mad::PortQps");
        let data = Counted::new(KBox::pin_init(empty, GFP_KERNEL)?)?;
        let mut ports: KVec<PortQps> = KVec::new();
        for port_num in device.ports() {
            if device.port_caps(port_num) & c::RDMA_CORE_CAP_IB_MAD == 0 {
                continue;
            }
            let make = |kinds: &[SpecialKind], depths: Depths| {
                let queue = |_| Queue::new(port_num, depths.send);
                let device = device.try_get().ok_or(ENODEV)?;
                SpecialQps::new(device, port_num, kinds, depths, queue, sleep)
            };
            let opened = ports
                .reserve(1, GFP_KERNEL)
                .map_err(Error::from)
                .and_then(|()| open(device, port_num, make, sleep));
            match opened {
                Ok(opened) => ports.push(opened, GFP_KERNEL)?,
                Err(error) => {
                    close_all(device, &mut ports, sleep);
                    return Err(error);
                }
            }
        }
        if ports.is_empty() {
            return Err(EOPNOTSUPP);
        }
        *data.lock() = ports;
        Ok(data)
    }

    fn remove(device: &Device, data: ARef<Self::Data>, sleep: &MaySleep) {
        let mut ports = core::mem::take(&mut *data.lock());
        close_all(device, &mut ports, sleep);
    }
}

fn close_all(device: &Device, ports: &mut KVec<PortQps>, sleep: &MaySleep) {
    while let Some(mut opened) = ports.pop() {
        close(device, &mut opened, sleep);
    }
}

/// Opens the ports of all present and future devices until the result is dropped.
///
/// # Errors
///
/// `ENOMEM`.
pub(super) fn start_client(sleep: &MaySleep) -> Result<Registration<Ports>> {
    TABLE.register(sleep)
}
