// SPDX-License-Identifier: GPL-2.0

//! The class `infiniband_verbs`, and what a node says of itself in sysfs.
//!
//! | file | what |
//! |---|---|
//! | `/sys/class/infiniband_verbs/abi_version` | the version of the commands |
//! | `…/uverbsN/ibdev` | the name of the RDMA device |
//! | `…/uverbsN/abi_version` | the version of what commands carry for its driver |
//! | `…/uverbsN/dev` | the number of the character device; the driver model's |

use core::fmt::Write;

use kernel::prelude::*;
use kernel_ext::{
    bindings::{attribute, device_attribute},
    chrdev::{ClassText, NodeClass, Nodes},
    export::Exported,
    sysfs::Text,
};
use rdma::core::Device;
use rdma_uverbs::node::{self, Attribute, Attributes};

/// How the nodes are made: for everybody.
pub(crate) struct Verbs;

impl Nodes for Verbs {
    const PATH: &'static CStr = c"infiniband/%s";
    const MODE: u16 = 0o666;
}

/// The class.
pub(crate) static CLASS: NodeClass<Verbs> = NodeClass::new(c"infiniband_verbs");

/// The class's own file. `IB_USER_VERBS_ABI_VERSION`.
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

static ABI_VERSION: Exported<device_attribute> = node::attribute::<AbiVersion>();
static IB_DEV: Exported<device_attribute> = node::attribute::<IbDev>();

static FILES: Exported<[*const attribute; 3]> = Exported([
    &raw const ABI_VERSION.0.attr,
    &raw const IB_DEV.0.attr,
    core::ptr::null(),
]);

/// The files of each node.
// SAFETY: The list ends with null, and has nothing else but files from `node::attribute`.
pub(crate) static ATTRIBUTES: Attributes = unsafe { Attributes::new(&FILES) };
