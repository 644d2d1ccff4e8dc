// SPDX-License-Identifier: GPL-2.0

//! The client of ib_core: adds a character device (node) for each RDMA device, and removes it.
//!
//! `uverbsN` gets the lowest free N. The first 32 have fixed device numbers (major 231, minors from 192); the others have numbers
//! that the kernel allocates.
//!
//! C header: `include/rdma/ib_verbs.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `NUMBERS` | the numbers of nodes in use | process context | the allocator |

use kernel::{bitmap::BitmapVec, prelude::*, sync::aref::ARef};
use kernel_ext::{
    bindings::{RDMA_DEVICE_TYPE_SMI, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID},
    chrdev::Numbers,
    error::EOPNOTSUPP,
    static_lock::static_lock,
};
use rdma::{
    client::registration::{Client, ClientTable, Counted, NlInfo},
    core::{uobject::RemoveReason, Device},
    MaySleep,
};
use rdma_uverbs::node::{Node, OwnNode};

use crate::{file, sysfs, tree};

const MAJOR: u32 = 231;
const FIRST_MINOR: u32 = 192;
/// The number of nodes with fixed device numbers.
const FIXED: u32 = 32;
/// The largest number of nodes.
const MAX_NODES: u32 = 8192;

/// The device numbers, and which are in use.
struct Nodes {
    fixed: Numbers,
    dynamic: Numbers,
    used: BitmapVec,
}

static_lock! {
    static NUMBERS: Mutex<Option<Nodes>> = None;
}

impl Nodes {
    /// The device number of a node.
    fn devt(&self, number: u32) -> Option<u32> {
        match number.checked_sub(self.fixed.count()) {
            None => self.fixed.nth(number),
            Some(rest) => self.dynamic.nth(rest),
        }
    }
}

/// The number of a node. Dropping it frees the number.
struct Number {
    number: u32,
    devt: u32,
}

impl Number {
    /// Allocates the lowest free number.
    fn take() -> Result<Self> {
        let mut nodes = NUMBERS.lock();
        let nodes = nodes.as_mut().ok_or(ENOMEM)?;
        let free = nodes.used.next_zero_bit(0).ok_or(ENOMEM)?;
        let number = u32::try_from(free)?;
        let devt = nodes.devt(number).ok_or(ENOMEM)?;
        nodes.used.set_bit(free);
        Ok(Self { number, devt })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        free(self.number);
    }
}

fn free(number: u32) {
    if let Some(nodes) = NUMBERS.lock().as_mut() {
        nodes.used.clear_bit(number as usize);
    }
}

/// The device numbers are registered. Dropping this unregisters them.
pub(crate) struct Registration(());

/// Registers the device numbers. The module's initialisation calls it, once.
pub(crate) fn register(sleep: &MaySleep) -> Result<Registration> {
    let name = c"infiniband_verbs";
    let nodes = Nodes {
        fixed: Numbers::fixed(MAJOR, FIRST_MINOR, FIXED, name, sleep)?,
        dynamic: Numbers::dynamic(MAX_NODES - FIXED, name, sleep)?,
        used: BitmapVec::new(MAX_NODES as usize, GFP_KERNEL)?,
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

/// The client of ib_core.
pub(crate) struct Uverbs;

/// Its registration.
pub(crate) static CLIENT: ClientTable<Uverbs> = ClientTable::new();

impl Client for Uverbs {
    type Data = Counted<OwnNode>;

    const NAME: &'static CStr = c"uverbs";
    const ANY_DEVICE: bool = true;

    fn table() -> &'static ClientTable<Self> {
        &CLIENT
    }

    fn add(device: &Device, sleep: &MaySleep) -> Result<ARef<Self::Data>> {
        if device.ops().alloc_ucontext.is_none() || device.sub_type() == RDMA_DEVICE_TYPE_SMI {
            return Err(EOPNOTSUPP);
        }
        let number = Number::take()?;
        let api = tree::build(&device.try_get().ok_or(ENODEV)?, sleep)?;
        let node = OwnNode::new(device, api, &sysfs::CLASS, &sysfs::ATTRIBUTES, sleep)?;
        let node = Counted::new(node)?;
        let (n, devt) = (number.number, number.devt);
        let operations = file::operations(device);
        // SAFETY: `remove` is called before the device is unregistered: it unpublishes the node, and disassociates it or waits for
        // its files.
        unsafe { node.publish(n, devt, operations, &crate::THIS_MODULE, sleep)? };
        // `remove` frees it.
        core::mem::forget(number);
        Ok(node)
    }

    fn remove(device: &Device, node: ARef<Self::Data>, sleep: &MaySleep) {
        let Some(unpublished) = node.unpublish(sleep) else {
            return;
        };
        free(node.number());
        let can_disassociate = device.has_disassociate();
        if can_disassociate {
            disassociate(&node, sleep);
        }
        // Without `disassociate_ucontext` the removal waits until all files are closed.
        unpublished.retire(!can_disassociate, sleep);
    }

    fn nl_info<'a>(device: &Device, node: &'a Self::Data, info: &mut NlInfo<'a>) -> Result {
        if info.port().is_some() {
            return Err(EINVAL);
        }
        let ops = device.ops();
        info.set(node.dev(), ops.uverbs_abi_ver.into());
        if ops.uverbs_no_driver_id_binding() == 0 {
            info.put_u32(RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, ops.driver_id)?;
        }
        Ok(())
    }
}

/// Disassociates the open files from the device: destroys their objects and zaps their mappings; their commands fail with `EIO`.
fn disassociate(node: &Node, sleep: &MaySleep) {
    node.disassociate(sleep);
    while let Some(file) = node.take_file(sleep) {
        file::destroy_hw(&file, RemoveReason::DriverRemove, sleep);
    }
    node.api().disassociate();
}
