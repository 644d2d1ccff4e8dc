// SPDX-License-Identifier: GPL-2.0

//! Messages with the name of a device as prefix.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::fmt;

use kernel::ffi::c_char;
use kernel_ext::{bindings::ib_device, compat::va_list, export::export};
use rdma::core::{
    printk::{emit, print, Level},
    Device,
};

/// Prints an informational message. Any context.
pub(crate) fn info(device: &Device, message: fmt::Arguments<'_>) {
    print(Level::INFO, device, message);
}

/// Prints a warning. Any context.
pub(crate) fn warn(device: &Device, message: fmt::Arguments<'_>) {
    print(Level::WARNING, device, message);
}

/// Defines the exported function of a log level, which prints a C format with the name of a device as prefix. Any
/// context.
macro_rules! entry {
    ($name:ident, $level:ident, $doc:literal) => {
        #[doc = $doc]
        ///
        /// # Safety
        ///
        /// The arguments match the format, as for `printk`. The device is valid or null.
        #[export]
        unsafe extern "C" fn $name(device: *const ib_device, format: *const c_char, mut args: ...) {
            // SAFETY: By the safety requirements; `args` is what `va_list::raw` is for.
            unsafe {
                let device = device.cast::<Device>().as_ref();
                emit(
                    Level::$level,
                    device,
                    format,
                    va_list::raw(&mut args).cast(),
                );
            }
        }
    };
}

entry!(ibdev_emerg, EMERG, "The system is unusable.");
entry!(ibdev_alert, ALERT, "Action must be taken immediately.");
entry!(ibdev_crit, CRIT, "A critical condition.");
entry!(ibdev_err, ERR, "An error.");
entry!(ibdev_warn, WARNING, "A warning.");
entry!(ibdev_notice, NOTICE, "A normal but significant condition.");
entry!(ibdev_info, INFO, "A piece of information.");
