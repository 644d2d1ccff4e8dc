// SPDX-License-Identifier: GPL-2.0

//! Files in `/proc/sys` of the initial network namespace.
//!
//! C headers: `include/linux/sysctl.h`, `include/net/net_namespace.h`.

use crate::{bindings, context::MaySleep, net::ns::NetNamespace};
use core::{
    ptr::{from_ref, NonNull},
    sync::atomic::{AtomicI32, Ordering},
};
use kernel::{ffi::c_int, prelude::*};

/// A number that user space may set within limits: a static.
pub struct Setting {
    value: AtomicI32,
    least: c_int,
    most: c_int,
}

impl Setting {
    /// A number that is `value` until it is set, and never less than `least` or more than `most`.
    pub const fn new(value: c_int, least: c_int, most: c_int) -> Self {
        Self {
            value: AtomicI32::new(value),
            least,
            most,
        }
    }

    /// The number. Any context.
    pub fn get(&self) -> c_int {
        self.value.load(Ordering::Relaxed)
    }
}

/// A file with a [`Setting`]. Dropping it removes the file, and waits for those who read or write it.
///
/// # Invariants
///
/// The table is registered, and `self` owns both.
pub struct Registration {
    header: NonNull<bindings::ctl_table_header>,
    _table: KBox<bindings::ctl_table>,
}

// SAFETY: A table may be unregistered by any thread.
unsafe impl Send for Registration {}
// SAFETY: There are no methods.
unsafe impl Sync for Registration {}

impl Registration {
    /// Makes the file `/proc/sys/PATH/NAME`, which all users may read, and the superuser may write.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if there is such a file.
    pub fn new(
        path: &'static CStr,
        name: &'static CStr,
        setting: &'static Setting,
        _sleep: &MaySleep,
    ) -> Result<Self> {
        let mut raw: bindings::ctl_table = pin_init::zeroed();
        raw.procname = name.as_char_ptr();
        raw.data = setting.value.as_ptr().cast();
        raw.maxlen = size_of::<c_int>() as c_int;
        raw.mode = 0o644;
        raw.proc_handler = Some(bindings::proc_dointvec_minmax);
        raw.extra1 = from_ref(&setting.least).cast_mut().cast();
        raw.extra2 = from_ref(&setting.most).cast_mut().cast();
        let mut table = KBox::new(raw, GFP_KERNEL)?;
        // SAFETY: The table has one entry, and stays until it is unregistered; what it refers to is static. The handler reads the limits
        // and accesses the value as a whole.
        let header = unsafe {
            bindings::register_net_sysctl_sz(
                NetNamespace::init().as_raw(),
                path.as_char_ptr(),
                &raw mut *table,
                1,
            )
        };
        // INVARIANT: The table was just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants.
        unsafe { bindings::unregister_net_sysctl_table(self.header.as_ptr()) };
    }
}
