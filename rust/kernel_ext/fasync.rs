// SPDX-License-Identifier: GPL-2.0

//! Signals for processes that want to be told when a file has something to read (`O_ASYNC`).
//!
//! C header: `include/linux/fs.h`.

use core::cell::UnsafeCell;

use kernel::{error::Result, ffi::c_int, fs::File};

use crate::bindings;

/// The processes that want to be told, of one file or of several.
///
/// Zeroed memory is one with no processes. The kernel takes a file out before it is released.
#[repr(transparent)]
pub struct Fasync(UnsafeCell<*mut bindings::fasync_struct>);

// SAFETY: The kernel guards the list.
unsafe impl Send for Fasync {}
// SAFETY: As above.
unsafe impl Sync for Fasync {}

impl Fasync {
    /// No processes.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(core::ptr::null_mut()))
    }

    /// Tells all: `SIGIO`, or what they asked for instead. Any context.
    pub fn notify(&self) {
        // SAFETY: The list is there; the function takes the locks that it needs.
        unsafe { bindings::kill_fasync_input(self.0.get()) };
    }

    /// Puts a file in or takes it out, as the file's `fasync` method is told to.
    pub(crate) fn set(&self, fd: c_int, file: &File, on: c_int) -> Result<c_int> {
        // SAFETY: The list is there, and the file too during the call.
        let ret = unsafe { bindings::fasync_helper(fd, file.as_ptr(), on, self.0.get()) };
        kernel::error::to_result(ret.min(0)).map(|()| ret)
    }
}

impl Default for Fasync {
    fn default() -> Self {
        Self::new()
    }
}
