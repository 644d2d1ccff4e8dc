// SPDX-License-Identifier: GPL-2.0

//! The client of ib_core that has a node `umadN` for each port with management datagrams.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::char_node::{CharNode, NodeOptions, Published};
use rdma::{
    client::{
        attachment::{Attached, Client, Table},
        registration::NlInfo,
    },
    core::Device,
    MaySleep,
};

use crate::{
    file::{self, Files, Mads},
    nodes::{PortNode, PortNodes},
    numbers::{self, Kind, Number},
    sysfs,
};

/// The client.
pub(crate) struct Umad;

/// Its registration.
pub(crate) static TABLE: Table<Umad> = Table::new();

/// A port with its node and its number.
pub(crate) struct UmadPort {
    port: u32,
    node: Published<Mads>,
    _number: Number,
}

impl PortNode for UmadPort {
    type Data = Mads;

    fn is_for(device: &Device, port: u32) -> bool {
        device.has_mads(port)
    }

    fn new(device: &Attached, port: u32, sleep: &MaySleep) -> Result<Self> {
        let number = Number::take(device, port)?;
        let name = numbers::of(device, port, Kind::Mads).ok_or(ENOMEM)?;
        let options = NodeOptions {
            class: &sysfs::CLASS,
            files: &file::FILES,
            parent: device.parent_dev(),
            prefix: c"umad",
            number: name.number,
            devt: name.devt,
        };
        let files = Files::new(device, port)?;
        let mads = Mads(files.clone());
        let node = CharNode::publish(&options, &file::OPERATIONS, mads, sleep)
            // A file may have been opened meanwhile.
            .inspect_err(|_| files.end(sleep))?;
        Ok(Self {
            port,
            node,
            _number: number,
        })
    }

    fn port(&self) -> u32 {
        self.port
    }

    fn node(&self) -> &Published<Mads> {
        &self.node
    }

    fn end(&self, sleep: &MaySleep) {
        self.node.unpublish(sleep);
        self.node.data().0.end(sleep);
    }
}

impl Client for Umad {
    type Data = PortNodes<UmadPort>;

    const NAME: &'static CStr = c"umad";

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
