// SPDX-License-Identifier: GPL-2.0

//! The client of ib_core that has a node `umadN` for each port with management datagrams.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{
    bindings::IB_USER_MAD_ABI_VERSION,
    char_node::{CharNode, NodeOptions, Published},
    error::EOPNOTSUPP,
};
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
    numbers::{self, Kind, Number},
    port, sysfs,
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

impl UmadPort {
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

    fn end(&self, sleep: &MaySleep) {
        self.node.unpublish(sleep);
        self.node.data().0.end(sleep);
    }
}

impl Client for Umad {
    type Data = KVec<UmadPort>;

    const NAME: &'static CStr = c"umad";

    fn table() -> &'static Table<Self> {
        &TABLE
    }

    fn add(device: &Attached, sleep: &MaySleep) -> Result<Self::Data> {
        let mut ports = KVec::with_capacity(device.ports().count(), GFP_KERNEL)?;
        for port in device.ports().filter(|port| device.has_mads(*port)) {
            match UmadPort::new(device, port, sleep) {
                // There is room for all.
                Ok(port) => ports.push(port, GFP_KERNEL)?,
                Err(error) => {
                    Self::remove(&ports, sleep);
                    return Err(error);
                }
            }
        }
        match ports.is_empty() {
            true => Err(EOPNOTSUPP),
            false => Ok(ports),
        }
    }

    fn remove(ports: &Self::Data, sleep: &MaySleep) {
        for port in ports.iter() {
            port.end(sleep);
        }
    }

    fn nl_info<'a>(device: &Device, ports: &'a Self::Data, info: &mut NlInfo<'a>) -> Result {
        let asked = port::asked(device, info)?;
        let port = ports.iter().find(|port| port.port == asked);
        let dev = port.ok_or(EOPNOTSUPP)?.node.dev();
        info.set(dev, IB_USER_MAD_ABI_VERSION.into());
        Ok(())
    }
}
