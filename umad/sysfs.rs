// SPDX-License-Identifier: GPL-2.0

//! `/sys/class/infiniband_mad`: its file, and those of each node.
//!
//! C headers: `include/linux/device/class.h`, `include/uapi/rdma/ib_user_mad.h`.

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    char_node::NodeFile,
    chrdev::{ClassText, NodeClass, Nodes},
    sysfs::Text,
};

use crate::port::Port;

/// The nodes in `/dev`: the default mode, in which root alone may open them.
pub(crate) struct Mads;

impl Nodes for Mads {
    const PATH: &'static CStr = c"infiniband/%s";
    const MODE: u16 = 0;
}

/// The class.
pub(crate) static CLASS: NodeClass<Mads> = NodeClass::new(c"infiniband_mad");

/// The file of the class: `IB_USER_MAD_ABI_VERSION`.
pub(crate) static CLASS_ABI: ClassText = ClassText::new(c"abi_version", c"5");

const _: () = assert!(kernel_ext::bindings::IB_USER_MAD_ABI_VERSION == 5);

/// The file with the name of the device.
pub(crate) struct IbDev;

impl<T: AsRef<Port>> NodeFile<T> for IbDev {
    const NAME: &'static CStr = c"ibdev";

    fn show(data: &T, text: &mut Text<'_>) -> Result {
        let device = data.as_ref().device().ok_or(ENODEV)?;
        text.append(device.name().to_bytes());
        text.append(b"\n");
        Ok(())
    }
}

/// The file with the number of the port.
pub(crate) struct PortNumber;

impl<T: AsRef<Port>> NodeFile<T> for PortNumber {
    const NAME: &'static CStr = c"port";

    fn show(data: &T, text: &mut Text<'_>) -> Result {
        writeln!(text, "{}", data.as_ref().number()).map_err(|_| EINVAL)
    }
}
