// SPDX-License-Identifier: GPL-2.0

//! The static `THIS_MODULE` in the root of a module's crate: `module!` of the kernel crate defines it up to 7.2, and a constant
//! of the trait `ModuleMetadata` since 7.3.

/// Declares the module of a crate as `module!` of the kernel crate does, and `static THIS_MODULE: ThisModule` beside it.
#[cfg(not(has_this_module_constant))]
#[macro_export]
macro_rules! module_with_static {
    ($($fields:tt)*) => {
        ::kernel::prelude::module! { $($fields)* }
    };
}

/// Declares the module of a crate as `module!` of the kernel crate does, and `static THIS_MODULE: ThisModule` beside it.
#[cfg(has_this_module_constant)]
#[macro_export]
macro_rules! module_with_static {
    ($($fields:tt)*) => {
        ::kernel::prelude::module! { $($fields)* }

        /// The module itself.
        #[allow(dead_code, reason = "only modules with files need it")]
        static THIS_MODULE: ::kernel::ThisModule =
            <LocalModule as ::kernel::ModuleMetadata>::THIS_MODULE;
    };
}

pub use module_with_static;
