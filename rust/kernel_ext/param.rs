// SPDX-License-Identifier: GPL-2.0

//! Module parameters in atomic variables of the module: flags, and counters to be read.
//!
//! `module!` of the kernel crate only supports constant numbers.
//!
//! C header: `include/linux/moduleparam.h`.

/// Declares a parameter in an [`AtomicBool`](core::sync::atomic::AtomicBool): set when the module is loaded, and
/// world-readable in `/sys/module/MODULE/parameters/` unless it is `hidden`.
///
/// `$strings` is the text for `modinfo`: `parmtype=NAME:bool` and `parm=NAME:DESCRIPTION`, each with a NUL.
///
/// ```
/// # use core::sync::atomic::AtomicBool;
/// # use kernel_ext::param::bool_param;
/// static SHARED: AtomicBool = AtomicBool::new(true);
/// bool_param!(c"shared", SHARED, b"parmtype=shared:bool\0parm=shared:Share devices\0");
/// ```
#[macro_export]
macro_rules! bool_param {
    ($name:literal, $place:ident, $strings:literal) => {
        $crate::raw_param!($name, $place, param_ops_bool, 0o444, $strings);
    };
    ($name:literal, $place:ident, hidden, $strings:literal) => {
        $crate::raw_param!($name, $place, param_ops_bool, 0, $strings);
    };
}
pub use bool_param;

/// As [`bool_param`], for a changing number in an [`AtomicUsize`](core::sync::atomic::AtomicUsize), which is
/// world-readable; its type is `ulong`.
#[macro_export]
macro_rules! count_param {
    ($name:literal, $place:ident, $strings:literal) => {
        $crate::raw_param!($name, $place, param_ops_ulong, 0o444, $strings);
    };
}
pub use count_param;

/// As [`bool_param`], for a number in an [`AtomicI32`](core::sync::atomic::AtomicI32); its type is `int`.
#[macro_export]
macro_rules! int_param {
    ($name:literal, $place:ident, $strings:literal) => {
        $crate::raw_param!($name, $place, param_ops_int, 0o444, $strings);
    };
}
pub use int_param;

/// Declares a parameter: name, variable, which has the layout that `$ops` expects, and mode.
#[doc(hidden)]
#[macro_export]
macro_rules! raw_param {
    ($name:literal, $place:ident, $ops:ident, $perm:literal, $strings:literal) => {
        const _: () = {
            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: ::kernel::module_param::KernelParam =
                ::kernel::module_param::KernelParam::new(::kernel::bindings::kernel_param {
                    name: ::kernel::str::as_char_ptr_in_const_context($name),
                    // SAFETY: The kernel creates the module's own structure when it loads the module.
                    mod_: unsafe {
                        core::ptr::from_ref(&::kernel::bindings::__this_module)
                            .cast::<::kernel::bindings::module>()
                            .cast_mut()
                    },
                    ops: &raw const ::kernel::bindings::$ops,
                    perm: $perm,
                    level: -1,
                    flags: 0,
                    __bindgen_anon_1: ::kernel::bindings::kernel_param__bindgen_ty_1 {
                        // An atomic has the layout of its value; the kernel sets it before the module runs, and
                        // reads it by a single load.
                        arg: (&raw const $place).cast_mut().cast(),
                    },
                });

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static STRINGS: [u8; $strings.len()] = *$strings;
        };
    };
}
