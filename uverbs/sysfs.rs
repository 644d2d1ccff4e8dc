// SPDX-License-Identifier: GPL-2.0

//! The class `infiniband_verbs` in sysfs, and the files of a node.
//!
//! | file | contents |
//! |---|---|
//! | `/sys/class/infiniband_verbs/abi_version` | the version of the commands (`IB_USER_VERBS_ABI_VERSION`) |
//! | `…/uverbsN/ibdev` | the name of the RDMA device |
//! | `…/uverbsN/abi_version` | the version of the driver's part of commands |
//! | `…/uverbsN/dev` | the device number, by the driver model |
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h` (`IB_USER_VERBS_ABI_VERSION`).

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    chrdev::{ClassText, NodeClass, Nodes},
    sysfs::Text,
};
use rdma::core::Device;
use rdma_uverbs::node::{Attribute, Attributes, DeviceAttribute};

/// The nodes in `/dev`: everybody may open them.
pub(crate) struct Verbs;

impl Nodes for Verbs {
    const PATH: &'static CStr = c"infiniband/%s";
    const MODE: u16 = 0o666;
}

/// The class.
pub(crate) static CLASS: NodeClass<Verbs> = NodeClass::new(c"infiniband_verbs");

/// The file of the class: `IB_USER_VERBS_ABI_VERSION`.
pub(crate) static CLASS_ABI: ClassText = ClassText::new(c"abi_version", c"6");

const _: () = assert!(kernel_ext::bindings::IB_USER_VERBS_ABI_VERSION == 6);

struct AbiVersion;

impl Attribute for AbiVersion {
    const NAME: &'static CStr = c"abi_version";

    fn show(device: &Device, text: &mut Text<'_>) -> Result {
        writeln!(text, "{}", device.ops().uverbs_abi_ver).map_err(|_| EINVAL)
    }
}

struct IbDev;

impl Attribute for IbDev {
    const NAME: &'static CStr = c"ibdev";

    fn show(device: &Device, text: &mut Text<'_>) -> Result {
        text.append(device.name().to_bytes());
        text.append(b"\n");
        Ok(())
    }
}

static ABI_VERSION: DeviceAttribute = DeviceAttribute::new::<AbiVersion>();
static IB_DEV: DeviceAttribute = DeviceAttribute::new::<IbDev>();

static FILES: [Option<&'static DeviceAttribute>; 3] = [Some(&ABI_VERSION), Some(&IB_DEV), None];

/// The files of each node.
pub(crate) static ATTRIBUTES: Attributes = Attributes::new(&FILES);
