// SPDX-License-Identifier: GPL-2.0

//! `ib_uverbs_support`: objects of user space, for ib_uverbs and for drivers that have objects of their own.
//!
//! | file | what |
//! |---|---|
//! | [`cleanup`] | all objects of a file; files that are released |
//! | [`object`] | making, finding and destroying objects |
//! | [`handle`] | how objects are known: by number or by file descriptor |
//! | [`flow`] | what flow steering rules use |
//! | [`ucaps`] | capabilities of user space: nodes in `/dev` that only some may open |
//!
//! An object is begun, then committed or aborted. Who wants one looks it up, shared or alone, and puts it back. Destroying
//! needs it alone; what the driver cannot destroy stays, until the file goes.

use kernel::prelude::*;

mod cleanup;
mod flow;
mod handle;
mod object;
mod ucaps;

module! {
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
            _ucaps: ucaps::init(),
        })
    }
}
