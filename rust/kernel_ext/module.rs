// SPDX-License-Identifier: GPL-2.0

//! Modules: how they are loaded and unloaded, and references to them.
//!
//! C header: `include/linux/module.h`.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::prelude::*;

use crate::{bindings, context::MaySleep};

/// A module, which is loaded and unloaded in process context. [`process_module!`] declares it.
///
/// ```
/// # use kernel::prelude::*;
/// # use kernel_ext::{
/// #     context::MaySleep,
/// #     module::{process_module, ProcessModule},
/// #     work::{OwnedQueue, QueueFlags},
/// # };
/// process_module! {
///     type: Example,
///     name: "example",
///     authors: ["Ferroband"],
///     license: "GPL",
/// }
///
/// struct Example(OwnedQueue);
///
/// impl ProcessModule for Example {
///     fn init(_module: &'static ThisModule, sleep: &MaySleep) -> Result<Self> {
///         Ok(Self(OwnedQueue::new(c"example", QueueFlags::UNBOUND, 0, sleep)?))
///     }
/// }
/// ```
pub trait ProcessModule: Sized + Send + Sync {
    /// Loads the module.
    ///
    /// # Errors
    ///
    /// The module is not loaded then, and [`Self::exit`] is not called.
    fn init(module: &'static ThisModule, sleep: &MaySleep) -> Result<Self>;

    /// Unloads the module. By default it is dropped.
    fn exit(self, _sleep: &MaySleep) {}
}

/// Whether the function that loads a module has been called.
pub struct InitOnce(AtomicBool);

impl InitOnce {
    /// It has not been called.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }
}

/// A module while it is loaded. Dropping it unloads the module. For [`process_module!`].
///
/// # Invariants
///
/// `module!` of the kernel crate owns the value, and drops it when the kernel unloads the module, in process context. It is
/// `None` only while it is dropped.
pub struct Loaded<M: ProcessModule>(Option<M>);

impl<M: ProcessModule> Loaded<M> {
    /// Loads the module, if this is the first call for `once`.
    ///
    /// # Errors
    ///
    /// `EBUSY` if it is not, and those of [`ProcessModule::init`].
    ///
    /// # Safety
    ///
    /// It is called from `kernel::Module::init` alone, of the type that is given to `module!`, which returns the value; and
    /// `once` is for this alone.
    pub unsafe fn load(once: &'static InitOnce, module: &'static ThisModule) -> Result<Self> {
        if once.0.swap(true, Ordering::Relaxed) {
            return Err(EBUSY);
        }
        // SAFETY: The first call is that of the kernel, in process context: before it only setters of parameters run, which
        // are functions of the kernel.
        let sleep = &unsafe { MaySleep::assume() };
        // INVARIANT: The first caller is `module!`, by the safety requirements.
        Ok(Self(Some(M::init(module, sleep)?)))
    }
}

impl<M: ProcessModule> Drop for Loaded<M> {
    fn drop(&mut self) {
        if let Some(module) = self.0.take() {
            // SAFETY: By the type invariants the value is dropped in process context.
            module.exit(&unsafe { MaySleep::assume() });
        }
    }
}

/// Declares the module of a crate, a type with [`ProcessModule`]: `module!` of the kernel crate, where init and exit have a
/// token. `type` comes first; the rest is as for `module!`. `THIS_MODULE`, in the root of the crate, is the module.
#[macro_export]
macro_rules! process_module {
    (type: $type:ty, $($rest:tt)*) => {
        /// The type that the kernel loads, of which safe code has no value.
        struct LoadedModule {
            _loaded: $crate::module::Loaded<$type>,
        }

        impl ::kernel::Module for LoadedModule {
            fn init(module: &'static ::kernel::ThisModule) -> ::kernel::error::Result<Self> {
                static ONCE: $crate::module::InitOnce = $crate::module::InitOnce::new();
                // SAFETY: `module!`, below, is given this type; `ONCE` is this function's.
                let _loaded = unsafe { $crate::module::Loaded::load(&ONCE, module)? };
                Ok(Self { _loaded })
            }
        }

        $crate::compat::this_module::module_with_static! {
            type: LoadedModule,
            $($rest)*
        }
    };
}
pub use process_module;

/// A counted reference to a module, which prevents its unloading.
///
/// A module may hold one to itself, and drop it in code for which its unloading waits.
pub struct ModuleRef(&'static ThisModule);

impl ModuleRef {
    /// Takes a reference. `None` if the module is being unloaded. Any context.
    pub fn get(module: &'static ThisModule) -> Option<Self> {
        // SAFETY: The module is valid, since its code or that of a dependent module is running.
        unsafe { bindings::try_module_get(module.as_ptr()) }.then(|| Self(module))
    }
}

impl Drop for ModuleRef {
    fn drop(&mut self) {
        // SAFETY: `get` has counted the reference.
        unsafe { bindings::module_put(self.0.as_ptr()) };
    }
}
