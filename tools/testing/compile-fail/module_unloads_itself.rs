// SPDX-License-Identifier: GPL-2.0
// error: this method takes 1 argument but 0 arguments were supplied

//! A module that is unloaded by code without a token.

use kernel::prelude::*;
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
};

process_module! {
    type: Example,
    name: "module_unloads_itself",
    authors: ["Ferroband"],
    description: "An example",
    license: "GPL",
}

struct Example;

impl ProcessModule for Example {
    fn init(_module: &'static ThisModule, _sleep: &MaySleep) -> Result<Self> {
        Ok(Self)
    }

    fn exit(self, sleep: &MaySleep) {
        sleep.check();
    }
}

/// Unloads it.
pub fn unload() {
    Example.exit();
}
