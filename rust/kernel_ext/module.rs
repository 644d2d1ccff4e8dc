// SPDX-License-Identifier: GPL-2.0

//! References to modules.
//!
//! C header: `include/linux/module.h`.

use kernel::prelude::*;

use crate::bindings;

/// A counted reference to a module, which prevents its unloading.
///
/// A module may hold one to itself, and drop it in code for which its unloading waits.
pub struct ModuleRef(&'static ThisModule);

impl ModuleRef {
    /// Takes a reference. `None` if the module is being unloaded. Any context.
    pub fn get(module: &'static ThisModule) -> Option<Self> {
        // SAFETY: The module is there, for its code or that of one which needs it runs.
        unsafe { bindings::try_module_get(module.as_ptr()) }.then(|| Self(module))
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: `get` counted the reference.
        unsafe { bindings::module_put(self.0.as_ptr()) };
    }
}
