// SPDX-License-Identifier: GPL-2.0

//! The tables of all identifiers and devices, under one lock.
//!
//! C header: `include/rdma/rdma_cm.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `TABLES` | the devices with their identifiers, the ports of namespaces, the wildcard listeners | process context; RTNL may be held | `CmId::inner`, `IdBody::tracking`, what `ib_cm` and `iw_cm` take when one listens, the allocator |
//! | `SA` | the client of the subnet administrator | process context | nothing |

use cm_rules::port_space::PortSpace;
use kernel::{
    prelude::*,
    rbtree::RBTree,
    sync::{lock::GlobalGuard, Arc},
};
use kernel_ext::static_lock::static_lock;
use rdma::{client::attachment::Attached, core::cma::query::SaClient, MaySleep};

use crate::{devices::Dev, id::CmId};

static_lock! {
    /// The tables.
    pub(crate) static TABLES: Mutex<Tables> = Tables::new();
}

static_lock! {
    /// The client of the subnet administrator, while the module is loaded.
    static SA: Mutex<Option<Arc<SaClient>>> = None;
}

/// A device, and the identifiers that have it.
pub(crate) struct Entry {
    pub(crate) dev: Arc<Dev>,
    pub(crate) device: Attached,
    /// The identifiers, the oldest first.
    pub(crate) ids: RBTree<u64, Arc<CmId>>,
    /// How many identifiers have come.
    pub(crate) count: u64,
    /// It is being removed: nobody finds it any more by an address.
    pub(crate) is_leaving: bool,
}

/// A listener without a device, and those that listen for it on each device.
pub(crate) struct Anywhere {
    pub(crate) id: Arc<CmId>,
    pub(crate) children: KVec<Arc<CmId>>,
}

/// A port: of a namespace, by its cookie, and a port space.
pub(crate) type Place = (u64, u16, u16);

/// The tables.
pub(crate) struct Tables {
    pub(crate) devices: KVec<Entry>,
    pub(crate) anywhere: KVec<Anywhere>,
    /// Who has a port, the oldest first.
    ports: Option<RBTree<Place, KVec<Arc<CmId>>>>,
    /// The port that was taken last of those that nobody had named.
    pub(crate) last_port: Option<u16>,
}

/// The place of a port.
pub(crate) fn place(cookie: u64, space: PortSpace, port: u16) -> Place {
    (cookie, space as u16, port)
}

/// The number by which an identifier is in a table.
pub(crate) fn key(id: &Arc<CmId>) -> usize {
    Arc::as_ptr(id) as usize
}

impl Tables {
    const fn new() -> Self {
        Self {
            devices: KVec::new(),
            anywhere: KVec::new(),
            ports: None,
            last_port: None,
        }
    }

    /// Who has a port, the oldest first.
    pub(crate) fn owners(&self, place: &Place) -> Option<&KVec<Arc<CmId>>> {
        self.ports.as_ref()?.get(place)
    }

    /// Who has a port, to be changed.
    pub(crate) fn ports(&mut self) -> &mut RBTree<Place, KVec<Arc<CmId>>> {
        self.ports.get_or_insert_with(RBTree::new)
    }

    /// The entry of a device.
    pub(crate) fn entry(&mut self, dev: &Arc<Dev>) -> Option<&mut Entry> {
        let mut entries = self.devices.iter_mut();
        entries.find(|entry| Arc::ptr_eq(&entry.dev, dev))
    }

    /// Those that listen for a listener without a device.
    pub(crate) fn children(&self, id: &Arc<CmId>) -> &[Arc<CmId>] {
        let mut all = self.anywhere.iter();
        let found = all.find(|anywhere| Arc::ptr_eq(&anywhere.id, id));
        found.map_or(&[], |anywhere| &anywhere.children)
    }
}

/// Locks the tables.
pub(crate) fn lock(_sleep: &MaySleep) -> GlobalGuard<TABLES> {
    TABLES.lock()
}

/// The tables and the client of the subnet administrator, until the module goes.
pub(crate) struct InstalledSa(());

/// Registers the client of the subnet administrator.
///
/// # Errors
///
/// `ENOMEM`.
pub(crate) fn install_sa(sleep: &MaySleep) -> Result<InstalledSa> {
    *SA.lock() = Some(SaClient::register(sleep)?);
    Ok(InstalledSa(()))
}

impl Drop for InstalledSa {
    fn drop(&mut self) {
        let client = SA.lock().take();
        drop(client);
        let tables = core::mem::replace(&mut *TABLES.lock(), Tables::new());
        drop(tables);
    }
}

/// The client of the subnet administrator.
///
/// # Errors
///
/// `ENODEV` while the module goes.
pub(crate) fn sa(_sleep: &MaySleep) -> Result<Arc<SaClient>> {
    SA.lock().clone().ok_or(ENODEV)
}
