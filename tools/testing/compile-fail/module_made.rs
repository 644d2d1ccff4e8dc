// SPDX-License-Identifier: GPL-2.0
// error: Loaded::<M>::load` is unsafe and requires unsafe

//! A loaded module that safe code makes, and unloads by dropping it.

use kernel::prelude::*;
use kernel_ext::{
    context::MaySleep,
    module::{process_module, ProcessModule},
};

process_module! {
    type: Example,
    name: "module_made",
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

static ONCE: kernel_ext::module::InitOnce = kernel_ext::module::InitOnce::new();

/// Loads and unloads it.
pub fn load() {
    let _ = kernel_ext::module::Loaded::<Example>::load(&ONCE, &THIS_MODULE);
}
