// SPDX-License-Identifier: GPL-2.0

//! Link types: drivers whose devices are created by `rdma link add NAME type TYPE netdev DEVICE`.
//!
//! Locks
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `KINDS` | the list of link types; held while a link is created, so that its driver stays | process context | what drivers take |
//!
//! C header: `include/rdma/rdma_netlink.h` (`struct rdma_link_ops`).

use kernel::prelude::*;
use kernel_ext::{
    export::export, net::device::NetDevice, static_lock::static_lock, static_vec::StaticVec,
};
use rdma::{
    core::link::{request_module, LinkKind, LinkKindRef},
    MaySleep,
};

static_lock! {
    static KINDS: Mutex<StaticVec<LinkKindRef>> = StaticVec::new();
}

/// Creates a link of the type `kind`, and loads its module if necessary.
///
/// # Errors
///
/// `EINVAL` for an unknown type, and errors of the driver.
pub(crate) fn make(kind: &CStr, name: &CStr, ndev: &NetDevice, sleep: &MaySleep) -> Result {
    let attempt = || {
        let kinds = KINDS.lock();
        let found = kinds.iter().find(|known| known.name() == kind)?;
        Some(found.make(name, ndev, sleep))
    };
    let made = attempt().or_else(|| {
        request_module(kind, sleep);
        attempt()
    });
    made.unwrap_or(Err(EINVAL))
}

/// Registers a link type. Process context.
///
/// C header: `include/rdma/rdma_netlink.h`.
#[export]
fn rdma_link_register(ops: &LinkKind, _sleep: &MaySleep) {
    // SAFETY: `rdma_link_unregister` takes it from the list.
    let kind = unsafe { LinkKindRef::new(ops) };
    let mut kinds = KINDS.lock();
    if kinds.iter().any(|known| known.name() == kind.name()) {
        pr_warn!("there are two drivers for one kind of links\n");
        return;
    }
    if kinds.push(kind, GFP_KERNEL).is_err() {
        pr_warn!("no memory for a kind of links\n");
    }
}

/// Unregisters a link type. When this returns, no link of it is being created. Process context.
#[export]
fn rdma_link_unregister(ops: &LinkKind, _sleep: &MaySleep) {
    KINDS.lock().retain(|known| !known.is(ops));
}
