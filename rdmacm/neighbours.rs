// SPDX-License-Identifier: GPL-2.0

//! Which identifiers have a neighbour as their next hop, to tell them when its hardware address changes.
//!
//! C header: `include/net/netevent.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NEIGHBOURS` | the identifiers by the net device and the address of their peer | any, interrupts off | the work queue's |

use cm_rules::address::Ip;
use kernel::{
    prelude::*,
    rbtree::{RBTree, RBTreeNodeReservation},
    sync::Arc,
};
use kernel_ext::{net::resolve::HardwareAddress, static_lock::static_lock};

use crate::{
    id::{CmId, NextHop},
    tables::key,
};

static_lock! {
    /// The identifiers.
    static NEIGHBOURS: SpinLockIrq<Option<RBTree<NextHop, Arc<CmId>>>> = None;
}

/// `net_device` is the cookie of a namespace and an index in it: other namespaces have net devices of the same index.
fn key_of(net_device: (u64, u32), address: &Ip, id: usize) -> NextHop {
    let mut bytes = [0; 16];
    let (length, from): (u8, &[u8]) = match address {
        Ip::V4(address) => (4, address),
        Ip::V6(address) => (16, address),
    };
    for (to, from) in bytes.iter_mut().zip(from) {
        *to = *from;
    }
    (net_device, length, bytes, id)
}

fn key_of_id(id: &Arc<CmId>) -> Option<NextHop> {
    let address = id.ends().1?.ip()?;
    let net_device = id.body.net_device().unsigned_abs();
    let net = id.body.net().cookie();
    Some(key_of((net, net_device), &address, key(id)))
}

/// Notes an identifier whose route is known. Without memory it is not told of changes.
pub(crate) fn note(id: &Arc<CmId>) {
    forget(id);
    let Some(key) = key_of_id(id) else { return };
    let Ok(place) = RBTreeNodeReservation::new(GFP_KERNEL) else {
        return;
    };
    // Its net device and its peer may be others when it is forgotten.
    id.with(|inner| inner.noted = Some(key));
    let node = place.into_node(key, id.clone());
    let mut table = NEIGHBOURS.lock();
    let old = table.get_or_insert_with(RBTree::new).insert(node);
    drop(table);
    drop(old);
}

/// Forgets an identifier.
pub(crate) fn forget(id: &Arc<CmId>) {
    if let Some(key) = id.with(|inner| inner.noted.take()) {
        let mut table = NEIGHBOURS.lock();
        let old = table.as_mut().and_then(|table| table.remove_node(&key));
        drop(table);
        drop(old);
    }
}

/// Calls `f` with the identifiers whose next hop was at another hardware address than this one. Any context; `f` must not sleep.
pub(crate) fn for_each_elsewhere(
    net_device: (u64, u32),
    address: &Ip,
    (hardware, length): (&HardwareAddress, usize),
    f: impl Fn(&Arc<CmId>),
) {
    let first = key_of(net_device, address, 0);
    let mut table = NEIGHBOURS.lock();
    let Some(table) = table.as_mut() else { return };
    let mut cursor = table.cursor_lower_bound_mut(&first);
    while let Some(at) = cursor {
        let (key, id) = at.current();
        if (key.0, key.1, key.2) != (first.0, first.1, first.2) {
            break;
        }
        let (_, known) = id.body.hardware();
        if known.get(..length) != hardware.get(..length) {
            f(id);
        }
        cursor = at.move_next();
    }
}
