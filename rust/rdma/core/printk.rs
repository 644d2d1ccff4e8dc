// SPDX-License-Identifier: GPL-2.0

//! Log messages that begin with the name of a device: `ibdev_printk`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::fmt;

use kernel::{
    ffi::{c_char, c_void},
    prelude::*,
};
use rdma_bindings as bindings;

use super::{device::raw_dev, Device};

/// The level of a message: `KERN_EMERG` to `KERN_INFO`.
#[derive(Clone, Copy)]
pub struct Level(u8);

impl Level {
    /// The system is unusable.
    pub const EMERG: Self = Self(0);
    /// Action must be taken immediately.
    pub const ALERT: Self = Self(1);
    /// A critical condition.
    pub const CRIT: Self = Self(2);
    /// An error.
    pub const ERR: Self = Self(3);
    /// A warning.
    pub const WARNING: Self = Self(4);
    /// A normal but significant condition.
    pub const NOTICE: Self = Self(5);
    /// An informational message.
    pub const INFO: Self = Self(6);
}

/// The body of a message, as an argument of `printk`.
#[derive(Clone, Copy)]
enum Message {
    /// A `struct va_format`: `%pV`.
    C(*mut c_void),
    /// A `fmt::Arguments`: `%pA`.
    Rust(*mut c_void),
}

impl Message {
    /// The pointer, and the formats: with a parent, without one, without a device.
    fn parts(self) -> (*mut c_void, [&'static CStr; 3]) {
        match self {
            Self::C(message) => (
                message,
                [c"%s %s %s: %pV", c"%s%s: %pV", c"%s(NULL ib_device): %pV"],
            ),
            Self::Rust(message) => (
                message,
                [c"%s %s %s: %pA", c"%s%s: %pA", c"%s(NULL ib_device): %pA"],
            ),
        }
    }
}

/// Prints a message. Any context.
pub fn print(level: Level, device: &Device, message: fmt::Arguments<'_>) {
    let message = Message::Rust(core::ptr::from_ref(&message).cast_mut().cast());
    // SAFETY: The pointer is a `fmt::Arguments`, as the variant demands.
    unsafe { prefixed(level, Some(device), message) };
}

/// Prints a message of C. Any context.
///
/// # Safety
///
/// As for `vprintk`, `args` points to a `va_list` with the arguments that the format demands.
pub unsafe fn emit(
    level: Level,
    device: Option<&Device>,
    format: *const c_char,
    args: *mut c_void,
) {
    let mut message = bindings::va_format {
        fmt: format,
        va: args.cast(),
    };
    // SAFETY: By the safety requirements.
    unsafe { prefixed(level, device, Message::C((&raw mut message).cast())) };
}

/// Prints a message with its prefix: the parent's driver, the parent and the device.
///
/// # Safety
///
/// The pointer of the message has the type that its variant demands.
unsafe fn prefixed(level: Level, device: Option<&Device>, message: Message) {
    let (message, [with_parent, without_parent, without_device]) = message.parts();
    // `KERN_SOH` and the digit.
    let kern = [1, b'0' | level.0, 0];
    let kern: *const c_char = kern.as_ptr();
    let name = |dev: &kernel::device::Device| dev.name().as_char_ptr();
    // SAFETY: The formats take these arguments: strings, and a message of this variant.
    unsafe {
        match device.map(|device| (device, device.parent_dev())) {
            Some((device, Some(parent))) => {
                bindings::dev_printk_emit(
                    level.0.into(),
                    raw_dev(parent),
                    with_parent.as_char_ptr(),
                    bindings::dev_driver_string(raw_dev(parent)),
                    name(parent),
                    name(device.dev()),
                    message,
                );
            }
            Some((device, None)) => {
                let format = without_parent.as_char_ptr();
                bindings::_printk(format, kern, name(device.dev()), message);
            }
            None => {
                bindings::_printk(without_device.as_char_ptr(), kern, message);
            }
        }
    }
}
