// SPDX-License-Identifier: GPL-2.0

//! Addresses of peers: by the paths of clients, by those that messages tell, and by where a message has come from.
//!
//! C headers: `include/rdma/ib_sa.h`, `include/rdma/ib_cm.h`.

use ib_cm_protocol::{messages, time};
use kernel::{prelude::*, sync::Arc};
use rdma::{
    client::mad::Received,
    core::{
        address_vector::{pkey_index, AddressVector, Sgid},
        path::{NewPath, Path, PathKind},
    },
    Gid, MaySleep,
};

use crate::{
    id::Av,
    port::{self, Port},
};

/// The address by a path from a port, whose route it is resolved to.
///
/// # Errors
///
/// `EINVAL` if the device has gone; `ENOENT` for an unknown partition; those of resolving the path.
pub(crate) fn from_port(
    port: Arc<Port>,
    path: &mut Path,
    sgid: Option<Sgid<'_>>,
    sleep: &MaySleep,
) -> Result<Av> {
    // Without the lock of the port: a neighbour may take long to answer.
    let device = port.attached(sleep)?;
    let pkey_index = pkey_index(&device, port.number, u16::from_be(path.raw().pkey))?;
    let vector = AddressVector::of_path(&device, port.number, path, sgid, sleep)?;
    Ok(Av {
        port,
        vector,
        pkey_index,
        data_lid: None,
        device,
    })
}

/// The address by an alternate path, which leads from whatever port has its source GID. Paths over Ethernet have none unless they are
/// resolved already, as in stock.
///
/// # Errors
///
/// `EINVAL` if no port has the GID, and those of [`from_port`].
pub(crate) fn alternate(path: &mut Path, sleep: &MaySleep) -> Result<Av> {
    let port = port::find_by_gid(path, sleep).ok_or(EINVAL)?;
    from_port(port, path, None, sleep)
}

/// The address of a sender. It may take a second to find.
///
/// # Errors
///
/// `EINVAL` if the device has gone, and those of resolving the address.
pub(crate) fn sender(received: &Received, port: &Arc<Port>, sleep: &MaySleep) -> Result<Av> {
    // Without the lock of the port: a neighbour may take long to answer.
    let device = port.attached(sleep)?;
    Ok(Av {
        port: port.clone(),
        vector: received.sender(&device, port.number, sleep)?,
        pkey_index: received.completion().pkey_index,
        data_lid: None,
        device,
    })
}

/// What the paths of a connection have in common.
#[derive(Clone, Copy)]
pub(crate) struct Common {
    pub(crate) kind: PathKind,
    pub(crate) service_id: u64,
    pub(crate) pkey: u16,
    pub(crate) mtu: u8,
}

/// A path that a message tells, in the other direction: to its sender.
pub(crate) fn back(told: &messages::Path, common: Common) -> NewPath {
    NewPath {
        kind: common.kind,
        sgid: Gid(told.remote_gid.0),
        dgid: Gid(told.local_gid.0),
        lids: (told.remote_lid, told.local_lid),
        dmac: None,
        service_id: common.service_id.to_be(),
        pkey: common.pkey,
        flow_label: told.flow_label,
        hop_limit: told.hop_limit,
        traffic_class: told.traffic_class,
        sl: told.sl,
        mtu: common.mtu,
        rate: told.packet_rate,
        packet_life_time: time::packet_life_time(told.local_ack_timeout),
    }
}
