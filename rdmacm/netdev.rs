// SPDX-License-Identifier: GPL-2.0

//! Net devices: bonds whose active port changes, and neighbours whose hardware address does.
//!
//! C headers: `include/linux/netdevice.h`, `include/net/netevent.h`.

use cm_rules::address::Ip;
use kernel::{prelude::*, sync::Arc};
use kernel_ext::net::{
    address::IpAddress,
    device::NetDevice,
    notifier::{self, Event, Listener},
    resolve::{HardwareAddress, Neighbour, NeighbourUpdate, NeighbourUpdates},
};
use rdma::MaySleep;

use crate::{
    id::CmId,
    jobs::{neighbour_changed, Job, What},
    neighbours, tables,
};

/// The listener for net devices.
pub(crate) struct NetDevices;

impl Listener for NetDevices {
    fn event(&self, device: &NetDevice, event: Event, sleep: &MaySleep) {
        if event != Event::BondFailover || !device.is_bond() {
            return;
        }
        let tables = tables::lock(sleep);
        for entry in tables.devices.iter() {
            for (_, id) in entry.ids.iter() {
                if has_moved(id, device) {
                    pr_info!("a net device has another hardware address\n");
                    if let Ok(job) = Job::new(id, What::AddrChange) {
                        job.tell(Ok(()));
                    }
                }
            }
        }
    }
}

/// Whether the net device of an identifier is this one, at another hardware address.
fn has_moved(id: &Arc<CmId>, device: &NetDevice) -> bool {
    let same_device = id.body.net_device().unsigned_abs() == device.index();
    let same_net = device.with_namespace(|net| *net == **id.body.net()) == Some(true);
    let (known, _) = id.body.hardware();
    let length = device.hardware_address_len();
    let now = device.hardware_address();
    same_device && same_net && known.get(..length) != now.get(..length)
}

/// The listener for neighbours.
pub(crate) struct Neighbours;

impl NeighbourUpdate for Neighbours {
    fn updated(&self, neighbour: &Neighbour) {
        let address = match neighbour.address {
            IpAddress::V4(address) => Ip::V4(address),
            IpAddress::V6(address) => Ip::V6(address),
        };
        let hardware: (&HardwareAddress, usize) =
            (&neighbour.hardware, neighbour.hardware_len.into());
        let net_device = (neighbour.net, neighbour.device);
        neighbours::for_each_elsewhere(net_device, &address, hardware, neighbour_changed);
    }
}

/// Both listeners, until they are dropped.
pub(crate) struct Registration {
    _devices: Pin<KBox<notifier::Registration<NetDevices>>>,
    _neighbours: Pin<KBox<NeighbourUpdates<Neighbours>>>,
}

/// Registers both listeners.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    Ok(Registration {
        _devices: notifier::Registration::new(NetDevices, sleep)?,
        _neighbours: NeighbourUpdates::new(Neighbours, sleep)?,
    })
}
