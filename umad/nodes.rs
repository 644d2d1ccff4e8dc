// SPDX-License-Identifier: GPL-2.0

//! The nodes of one kind that a device has, one for each port that is of use for them.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings::IB_USER_MAD_ABI_VERSION, char_node::Published, error::EOPNOTSUPP};
use rdma::{
    client::{attachment::Attached, registration::NlInfo},
    core::Device,
    MaySleep,
};

/// A node of a port.
pub(crate) trait PortNode: Sized {
    /// The data of the node.
    type Data;

    /// Whether a port has such a node.
    fn is_for(device: &Device, port: u32) -> bool;

    /// Publishes the node of a port.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver model.
    fn new(device: &Attached, port: u32, sleep: &MaySleep) -> Result<Self>;

    /// The number of the port.
    fn port(&self) -> u32;

    /// The node.
    fn node(&self) -> &Published<Self::Data>;

    /// The device goes: the node is unpublished, and its files have no port any more.
    fn end(&self, sleep: &MaySleep);
}

/// The nodes of a device.
pub(crate) struct PortNodes<N>(KVec<N>);

impl<N: PortNode> PortNodes<N> {
    /// Publishes the nodes of a device's ports: all of them, or none.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if no port has one, and those of [`PortNode::new`].
    pub(crate) fn new(device: &Attached, sleep: &MaySleep) -> Result<Self> {
        let mut nodes = Self(KVec::with_capacity(device.ports().count(), GFP_KERNEL)?);
        for port in device.ports().filter(|port| N::is_for(device, *port)) {
            match N::new(device, port, sleep) {
                // There is room for all.
                Ok(node) => nodes.0.push(node, GFP_KERNEL)?,
                Err(error) => {
                    nodes.end(sleep);
                    return Err(error);
                }
            }
        }
        match nodes.0.is_empty() {
            true => Err(EOPNOTSUPP),
            false => Ok(nodes),
        }
    }

    /// The device goes.
    pub(crate) fn end(&self, sleep: &MaySleep) {
        self.0.iter().for_each(|node| node.end(sleep));
    }

    /// Tells netlink the node of the port that it asks for.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no port, and for one that the device has not; `EOPNOTSUPP` for one without such a node.
    pub(crate) fn tell<'a>(&'a self, device: &Device, info: &mut NlInfo<'a>) -> Result {
        let asked = info.port().filter(|port| device.is_port_valid(*port));
        let asked = asked.ok_or(EINVAL)?;
        let found = self.0.iter().find(|node| node.port() == asked);
        let dev = found.ok_or(EOPNOTSUPP)?.node().dev();
        info.set(dev, IB_USER_MAD_ABI_VERSION.into());
        Ok(())
    }
}
