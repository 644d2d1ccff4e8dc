// SPDX-License-Identifier: GPL-2.0

//! Asynchronous notification of processes when a file is readable (`O_ASYNC`).
//!
//! C header: `include/linux/fs.h`.

use core::cell::UnsafeCell;

use kernel::{error::Result, ffi::c_int, fs::File};

use crate::bindings;

/// The list of processes to notify, of one file or several.
///
/// Zeroed memory is an empty list. The kernel removes a file before it is released.
#[repr(transparent)]
pub struct Fasync(UnsafeCell<*mut bindings::fasync_struct>);

// SAFETY: The kernel synchronises access to the list.
unsafe impl Send for Fasync {}
// SAFETY: The kernel synchronises access to the list.
unsafe impl Sync for Fasync {}

impl Fasync {
    /// An empty list.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(core::ptr::null_mut()))
    }

    /// Notifies all processes: `SIGIO`, or the signal of `F_SETSIG`. Any context.
    pub fn notify(&self) {
        // SAFETY: The list is valid; the function takes the necessary locks.
        unsafe { bindings::kill_fasync_input(self.0.get()) };
    }

    /// Adds or removes a file, with the arguments of its `fasync` method.
    pub(crate) fn set(&self, fd: c_int, file: &File, on: c_int) -> Result<c_int> {
        // SAFETY: The list is valid, and the file is valid during the call.
        let ret = unsafe { bindings::fasync_helper(fd, file.as_ptr(), on, self.0.get()) };
        kernel::error::to_result(ret.min(0)).map(|()| ret)
    }
}

impl Default for Fasync {
    fn default() -> Self {
        Self::new()
    }
}
