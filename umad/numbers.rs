// SPDX-License-Identifier: GPL-2.0

//! The numbers of the nodes: the N of `umadN` and `issmN`, and their device numbers.
//!
//! A port gets the lowest free N, which both of its nodes have. The first 64 have fixed device numbers: major 231, minors from 0 for
//! `umadN` and from 64 for `issmN`. The others have numbers that the kernel allocates.
//!
//! C header: `include/uapi/rdma/ib_user_mad.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NUMBERS` | which port has which number | process context | the allocator |

use kernel::prelude::*;
use kernel_ext::{chrdev, static_lock::static_lock};
use rdma::{core::Device, MaySleep};

const MAJOR: u32 = 231;
/// The number of ports whose nodes have fixed device numbers.
const FIXED: u32 = 64;
/// The largest number of ports.
const MAX_PORTS: u32 = 1024;
/// The number of ports whose nodes have other device numbers.
const DYNAMIC: u32 = MAX_PORTS - FIXED;

/// A port of a device: the index of the device, and the number of the port.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    device: u32,
    port: u32,
}

impl Owner {
    fn new(device: &Device, port: u32) -> Self {
        Self {
            device: device.index(),
            port,
        }
    }
}

/// The device numbers, and the port that has each N.
struct Nodes {
    fixed: chrdev::Numbers,
    dynamic: chrdev::Numbers,
    owners: KVVec<Option<Owner>>,
}

static_lock! {
    static NUMBERS: Mutex<Option<Nodes>> = None;
}

/// What a node is for.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// `umadN`.
    Mads,
    /// `issmN`.
    SubnetManager,
}

/// The number of a node.
pub(crate) struct Name {
    /// The N.
    pub(crate) number: u32,
    /// The device number.
    pub(crate) devt: u32,
}

impl Nodes {
    fn name(&self, number: u32, kind: Kind) -> Option<Name> {
        let (range, nth, count) = match number.checked_sub(FIXED) {
            None => (&self.fixed, number, FIXED),
            Some(rest) => (&self.dynamic, rest, DYNAMIC),
        };
        let nth = match kind {
            Kind::Mads => nth,
            Kind::SubnetManager => nth.checked_add(count)?,
        };
        let devt = range.nth(nth)?;
        Some(Name { number, devt })
    }

    fn find(&self, owner: Option<Owner>) -> Option<u32> {
        let found = self.owners.iter().position(|other| *other == owner)?;
        u32::try_from(found).ok()
    }
}

/// The number of a port. Dropping it frees the number.
pub(crate) struct Number(u32);

impl Number {
    /// Allocates the lowest free number.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is none.
    pub(crate) fn take(device: &Device, port: u32) -> Result<Self> {
        let mut nodes = NUMBERS.lock();
        let nodes = nodes.as_mut().ok_or(ENOMEM)?;
        let free = nodes.find(None).ok_or(ENOMEM)?;
        let entry = nodes.owners.get_mut(free as usize).ok_or(ENOMEM)?;
        *entry = Some(Owner::new(device, port));
        Ok(Self(free))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(nodes) = NUMBERS.lock().as_mut() {
            if let Some(entry) = nodes.owners.get_mut(self.0 as usize) {
                *entry = None;
            }
        }
    }
}

/// The number of a port's node; `None` if the port has none.
pub(crate) fn of(device: &Device, port: u32, kind: Kind) -> Option<Name> {
    let nodes = NUMBERS.lock();
    let nodes = nodes.as_ref()?;
    nodes.name(nodes.find(Some(Owner::new(device, port)))?, kind)
}

/// The device numbers are registered. Dropping this unregisters them.
pub(crate) struct Registration(());

/// Registers the device numbers. The module's initialisation calls it, once.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    let name = c"infiniband_mad";
    let nodes = Nodes {
        fixed: chrdev::Numbers::fixed(MAJOR, 0, 2 * FIXED, name, sleep)?,
        dynamic: chrdev::Numbers::dynamic(2 * DYNAMIC, name, sleep)?,
        owners: KVVec::from_elem(None, MAX_PORTS as usize, GFP_KERNEL)?,
    };
    *NUMBERS.lock() = Some(nodes);
    Ok(Registration(()))
}

impl Drop for Registration {
    fn drop(&mut self) {
        let nodes = NUMBERS.lock().take();
        drop(nodes);
    }
}
