// SPDX-License-Identifier: GPL-2.0

//! `/dev/infiniband/issmN`: the client of ib_core that has a node for each port with QP0, and its file operations.
//!
//! Whoever has the file open is the subnet manager of the port: the port announces that it has one (`IB_PORT_SM`). One at a time may
//! have it open; others wait, or with `O_NONBLOCK` fail.
//!
//! C headers: `include/linux/fs.h`, `include/rdma/ib_verbs.h`.
//!
//! | lock | protects | taken in | inside of it |
//! |---|---|---|---|
//! | `Seat::is_taken` | whether a file of the node is open | process context | `Port::device` |

use kernel::{
    error::code::ERESTARTSYS,
    fs, new_condvar,
    prelude::*,
    sync::{aref::ARef, new_mutex, Arc, CondVar, Mutex},
};
use kernel_ext::{
    bindings::{IB_PORT_SM, O_NONBLOCK},
    char_node::{CharNode, NodeAttribute, NodeFiles, NodeOps, NodeOptions, Published},
    error::EOPNOTSUPP,
    file_ops::FileOps,
};
use rdma::{
    client::{
        attachment::{Attached, Client, Table},
        registration::{Counted, NlInfo},
    },
    core::Device,
    MaySleep,
};

use crate::{
    nodes::{PortNode, PortNodes},
    numbers::{self, Kind},
    port::Port,
    sysfs,
};

/// The place of the subnet manager of a port.
#[pin_data]
pub(crate) struct Seat {
    #[pin]
    port: Port,
    #[pin]
    is_taken: Mutex<bool>,
    #[pin]
    waiters: CondVar,
}

impl Seat {
    fn new(device: &Attached, number: u32) -> Result<Arc<Self>> {
        let init = pin_init!(Self {
            port <- Port::new(device, number),
            is_taken <- new_mutex!(false, "Seat::is_taken"),
            waiters <- new_condvar!("Seat::waiters"),
        });
        Arc::pin_init(init, GFP_KERNEL)
    }

    /// Takes the place; with `waits` set, sleeps until it is free.
    fn take(&self, waits: bool) -> Result {
        let mut is_taken = self.is_taken.lock();
        let mut is_interrupted = false;
        while *is_taken {
            if !waits {
                return Err(EAGAIN);
            }
            if self.port.device().is_none() {
                return Err(ENXIO);
            }
            if is_interrupted {
                return Err(ERESTARTSYS);
            }
            is_interrupted = self.waiters.wait_interruptible(&mut is_taken);
        }
        *is_taken = true;
        Ok(())
    }

    fn leave(&self) {
        *self.is_taken.lock() = false;
        self.waiters.notify_one();
    }

    /// Takes the place, and lets the port announce it.
    fn open(self: &Arc<Self>, waits: bool, sleep: &MaySleep) -> Result<ARef<Counted<Taken>>> {
        self.take(waits)?;
        // Where this fails it leaves the place.
        let taken = Counted::new(Taken(self.clone()))?;
        let device = self.port.enter(sleep)?;
        device.modify_port(self.port.number(), IB_PORT_SM, 0, sleep)?;
        Ok(taken)
    }

    /// The port announces that it has none any more.
    fn withdraw(&self, sleep: &MaySleep) {
        if let Some(device) = self.port.device() {
            // The program cannot be told.
            let _ = device.modify_port(self.port.number(), 0, IB_PORT_SM, sleep);
        }
    }

    /// The device goes: who waits for the place does so in vain.
    fn end(&self) {
        self.port.leave();
        // Whoever is about to wait has the lock until then.
        drop(self.is_taken.lock());
        self.waiters.notify_all();
    }
}

/// A place that is taken, until this is dropped.
pub(crate) struct Taken(Arc<Seat>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The data of a node.
pub(crate) struct SmNode(Arc<Seat>);

impl AsRef<Port> for SmNode {
    fn as_ref(&self) -> &Port {
        &self.0.port
    }
}

/// The operations of `issmN`.
struct IssmFile;

#[vtable]
impl FileOps for IssmFile {
    type Private = Counted<Taken>;
    type Node = CharNode<SmNode>;

    fn open(node: &Self::Node, file: &fs::File, sleep: &MaySleep) -> Result<ARef<Self::Private>> {
        node.data().0.open(file.flags() & O_NONBLOCK == 0, sleep)
    }

    fn release(taken: ARef<Self::Private>, sleep: &MaySleep) {
        taken.0.withdraw(sleep);
    }
}

static OPERATIONS: NodeOps<IssmFile> = NodeOps::new(&crate::THIS_MODULE);

static IB_DEV: NodeAttribute<SmNode> = NodeAttribute::new::<sysfs::IbDev>();
static PORT: NodeAttribute<SmNode> = NodeAttribute::new::<sysfs::PortNumber>();

static LIST: [Option<&'static NodeAttribute<SmNode>>; 3] = [Some(&IB_DEV), Some(&PORT), None];
static FILES: NodeFiles<SmNode> = NodeFiles::new(&LIST);

/// A port with its node.
pub(crate) struct IssmPort {
    port: u32,
    node: Published<SmNode>,
}

impl PortNode for IssmPort {
    type Data = SmNode;

    fn is_for(device: &Device, port: u32) -> bool {
        device.has_smi(port)
    }

    fn new(device: &Attached, port: u32, sleep: &MaySleep) -> Result<Self> {
        let name = numbers::of(device, port, Kind::SubnetManager).ok_or(EOPNOTSUPP)?;
        let options = NodeOptions {
            class: &sysfs::CLASS,
            files: &FILES,
            parent: device.parent_dev(),
            prefix: c"issm",
            number: name.number,
            devt: name.devt,
        };
        let seat = Seat::new(device, port)?;
        let node = CharNode::publish(&options, &OPERATIONS, SmNode(seat.clone()), sleep)
            // A file may have been opened meanwhile.
            .inspect_err(|_| seat.end())?;
        Ok(Self { port, node })
    }

    fn port(&self) -> u32 {
        self.port
    }

    fn node(&self) -> &Published<SmNode> {
        &self.node
    }

    fn end(&self, sleep: &MaySleep) {
        self.node.unpublish(sleep);
        self.node.data().0.end();
    }
}

/// The client.
pub(crate) struct Issm;

/// Its registration.
pub(crate) static TABLE: Table<Issm> = Table::new();

impl Client for Issm {
    type Data = PortNodes<IssmPort>;

    const NAME: &'static CStr = c"issm";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add(device: &Attached, sleep: &MaySleep) -> Result<Self::Data> {
        PortNodes::new(device, sleep)
    }

    fn remove(nodes: &Self::Data, sleep: &MaySleep) {
        nodes.end(sleep);
    }

    fn nl_info<'a>(device: &Device, nodes: &'a Self::Data, info: &mut NlInfo<'a>) -> Result {
        nodes.tell(device, info)
    }
}
