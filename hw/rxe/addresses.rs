// SPDX-License-Identifier: GPL-2.0

//! The addresses of a device: the RoCE v2 entries of its port's GID table (IBTA volume 1, annex A17).
//!
//! A connected queue pair accepts packets between two addresses only. A datagram queue pair accepts them from any source, but only
//! if they are sent to an address of the device: UDP port 4791 receives packets for all addresses of the network namespace, and
//! broadcasts. A datagram with its destination in the work request gets its source address from here.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | `Addresses::list` | the addresses that datagrams may be sent to | process, softirq; softirqs off | the allocator |

use kernel::prelude::*;
use kernel::sync::aref::ARef;
use kernel_ext::sync::{new_spinlock_bh, SpinLockBh};
use rdma::abi::gid::{Gid, GidAttr, GidType};

/// An address and its entry of the GID table.
struct Address {
    gid: Gid,
    entry: ARef<GidAttr>,
}

/// The addresses of a device.
#[pin_data]
pub(crate) struct Addresses {
    #[pin]
    list: SpinLockBh<KVec<Address>>,
}

impl Addresses {
    /// No addresses.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock_bh!(KVec::new(), "rxe_addresses::list"),
        })
    }

    /// Adds an entry of the GID table: `add_gid`. Entries of other types than RoCE v2 have no effect.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn add(&self, attr: &GidAttr) -> Result {
        if attr.gid_type() != GidType::RoceV2 {
            return Ok(());
        }
        let address = Address {
            gid: attr.gid(),
            entry: ARef::from(attr),
        };
        self.list.lock().push(address, GFP_ATOMIC)?;
        Ok(())
    }

    /// Removes an entry of the GID table: `del_gid`.
    pub(crate) fn remove(&self, attr: &GidAttr) {
        let index = attr.index();
        self.list
            .lock()
            .retain(|address| address.entry.index() != index);
    }

    /// The entry of the GID table at `index`. Softirq or process context.
    pub(crate) fn entry(&self, index: u16) -> Option<ARef<GidAttr>> {
        let list = self.list.lock();
        let found = list.iter().find(|address| address.entry.index() == index);
        found.map(|address| address.entry.clone())
    }

    /// Whether a GID is an address of the device. Softirq or process context.
    pub(crate) fn contains(&self, gid: Gid) -> bool {
        self.list.lock().iter().any(|address| address.gid == gid)
    }
}
