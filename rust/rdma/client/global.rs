// SPDX-License-Identifier: GPL-2.0

//! Clients with one character device for all RDMA devices: only netlink asks them.
//!
//! 1. Implement [`GlobalClient`] for a type.
//! 2. Define a `static` [`GlobalTable`] of it.
//! 3. Keep its [`GlobalRegistration`] in the module, and drop it before the character device goes.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_client`, `get_global_nl_info`).

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{device, error::to_result, ffi::c_int, prelude::*, sync::aref::ARef, types::Opaque};
use rdma_bindings as bindings;

use super::registration::NlInfo;
use crate::MaySleep;

/// A client with one character device.
pub trait GlobalClient: Sized + 'static {
    /// The client's name, for the alias `rdma-client-NAME`.
    const NAME: &'static CStr;

    /// The version of the character device's ABI.
    const ABI: u64;

    /// The client's only table.
    fn table() -> &'static GlobalTable<Self>;
}

/// The C structure of a client: a `static`.
///
/// # Invariants
///
/// The character device is written while the client is not registered alone.
pub struct GlobalTable<T> {
    raw: Opaque<bindings::ib_client>,
    cdev: UnsafeCell<Option<ARef<device::Device>>>,
    /// Whether the client is registered.
    registered: AtomicBool,
    _client: PhantomData<fn() -> T>,
}

// SAFETY: The core synchronises the members that change, `registered` is atomic, and the device is constant while it is read.
unsafe impl<T> Sync for GlobalTable<T> {}

impl<T: GlobalClient> GlobalTable<T> {
    /// Creates the structure.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        let mut client: bindings::ib_client = pin_init::zeroed();
        client.name = kernel::str::as_char_ptr_in_const_context(T::NAME);
        client.get_global_nl_info = Some(Self::get_global_nl_info);
        Self {
            raw: Opaque::new(client),
            cdev: UnsafeCell::new(None),
            registered: AtomicBool::new(false),
            _client: PhantomData,
        }
    }

    /// Registers the client with its character device.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a table other than the client's, `EBUSY` for a registered one, `ENOMEM`.
    pub fn register(
        &'static self,
        cdev: ARef<device::Device>,
        _sleep: &MaySleep,
    ) -> Result<GlobalRegistration<T>> {
        if !core::ptr::eq(self, T::table()) {
            return Err(EINVAL);
        }
        if self.registered.swap(true, Ordering::AcqRel) {
            return Err(EBUSY);
        }
        // INVARIANT: `registered` shows that the client is not registered yet.
        // SAFETY: Nobody reads the device meanwhile. The structure is a static.
        let registered = to_result(unsafe {
            *self.cdev.get() = Some(cdev);
            bindings::ib_register_client(self.raw.get())
        });
        if let Err(error) = registered {
            self.forget();
            return Err(error);
        }
        Ok(GlobalRegistration(self))
    }

    /// # Safety
    ///
    /// The core calls it with the structure to fill in, while the client is registered, and takes a reference to the character device
    /// before it may be unregistered.
    unsafe extern "C" fn get_global_nl_info(info: *mut bindings::ib_client_nl_info) -> c_int {
        // SAFETY: By the safety requirements; the table is the client's only one, and its device is constant while it is registered.
        unsafe {
            match &*T::table().cdev.get() {
                Some(cdev) => NlInfo::from_raw(info).set(cdev, T::ABI),
                None => return EINVAL.to_errno(),
            }
        }
        0
    }
}

impl<T> GlobalTable<T> {
    /// The client is not registered any more.
    fn forget(&self) {
        // INVARIANT: As above.
        // SAFETY: Nobody reads the device any more.
        drop(unsafe { (*self.cdev.get()).take() });
        self.registered.store(false, Ordering::Release);
    }
}

/// The registration of a client. Dropping it, in process context, unregisters the client.
pub struct GlobalRegistration<T: 'static>(&'static GlobalTable<T>);

impl<T> Drop for GlobalRegistration<T> {
    fn drop(&mut self) {
        // SAFETY: `register` has registered the client.
        unsafe { bindings::ib_unregister_client(self.0.raw.get()) };
        self.0.forget();
    }
}
