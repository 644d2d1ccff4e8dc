// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs_support`: creating, looking up and destroying user-space objects, for ib_uverbs and for drivers with object classes
//! of their own.
//!
//! | file | contents |
//! |---|---|
//! | [`cleanup`] | destroying all objects of a file; objects whose file is released |
//! | [`object`] | creating, looking up and destroying objects |
//! | [`handle`] | the type classes: objects with handles, and with file descriptors |
//! | [`flow`] | the actions and counters of flow steering rules |
//! | [`ucaps`] | user capabilities: character devices in `/dev/infiniband` |
//!
//! An object is begun, then committed or aborted. A command looks it up, locks it for reading or writing, and puts it back. It is
//! destroyed with the lock for writing; one that the driver fails to destroy stays until its file is closed.
//!
//! C headers: `include/rdma/uverbs_std_types.h`, `include/rdma/uverbs_ioctl.h`.

use kernel::prelude::*;
use kernel_ext::compat::this_module::module_with_static;

mod cleanup;
mod flow;
mod handle;
mod object;
mod ucaps;

module_with_static! {
    type: IbUverbsSupport,
    name: "ib_uverbs_support",
    authors: ["Ferroband"],
    description: "InfiniBand uverbs objects",
    license: "Dual BSD/GPL",
    imports_ns: ["rdma_core"],
}

/// The module.
struct IbUverbsSupport {
    _ucaps: ucaps::Registration,
}

impl kernel::Module for IbUverbsSupport {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _ucaps: ucaps::start(),
        })
    }
}
