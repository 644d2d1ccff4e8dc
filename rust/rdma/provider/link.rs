// SPDX-License-Identifier: GPL-2.0

//! Links: devices that `rdma link add NAME type TYPE netdev DEV` creates, `struct rdma_link_ops`.
//!
//! The module of the link type `TYPE` declares an alias, so that the command loads it: `process_module!
//! { …, alias: ["rdma-link-TYPE"] }`.
//!
//! C header: `include/rdma/rdma_netlink.h`.

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{ffi, prelude::*};
use kernel_ext::net::device::NetDevice;
use rdma_bindings::{self as bindings, ib_device, net_device, rdma_link_ops};

use crate::{Device, MaySleep, NewDevice, Provider};

/// A link type.
#[vtable]
#[expect(unused_variables, reason = "the bodies of absent methods use none")]
pub trait LinkOps: Sized + 'static {
    /// The type's name.
    const TYPE: &'static CStr;
    /// The device type of its links.
    type Device: Provider;

    /// Creates a device named `name` on `ndev`.
    ///
    /// Called without the RTNL; `ndev` is referenced during the call.
    fn newlink(name: &CStr, ndev: &NetDevice, sleep: &MaySleep) -> Result;

    /// Called when a user deletes a link, before its device is unregistered.
    fn dellink(dev: &Device<Self::Device>, sleep: &MaySleep) -> Result {
        kernel::build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// The C structure of a link type: a `static` of the driver.
///
/// ```
/// # use rdma::provider::link::{Link, LinkOps};
/// # struct Statics<L: LinkOps>(L);
/// # impl<L: LinkOps> Statics<L> {
/// const RXE_LINK: Link<L> = Link::new();
/// # }
/// ```
pub struct Link<L: LinkOps> {
    ops: UnsafeCell<rdma_link_ops>,
    /// Whether the structure is on the core's list.
    registered: AtomicBool,
    _ops: PhantomData<fn() -> L>,
}

// SAFETY: Only the list node changes, under the core's lock, and `registered`, which is atomic.
unsafe impl<L: LinkOps> Sync for Link<L> {}

impl<L: LinkOps> Link<L> {
    /// Creates the structure for `L`.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        let ops = rdma_link_ops {
            type_: L::TYPE.to_bytes_with_nul().as_ptr().cast(),
            newlink: Some(Self::newlink),
            dellink: if L::HAS_DELLINK {
                Some(Self::dellink)
            } else {
                None
            },
            ..pin_init::zeroed()
        };
        Self {
            ops: UnsafeCell::new(ops),
            registered: AtomicBool::new(false),
            _ops: PhantomData,
        }
    }

    pub(crate) fn as_raw(&self) -> *mut rdma_link_ops {
        self.ops.get()
    }

    /// Registers the link type until the result is dropped.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the type is registered already.
    pub fn register(&'static self) -> Result<Registration> {
        if self.registered.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: The structure is a static, and `registered` shows that it is on no list;
        // `Registration` removes it from the list.
        unsafe { bindings::rdma_link_register(self.as_raw()) };
        Ok(Registration {
            ops: self.as_raw(),
            registered: &self.registered,
        })
    }

    /// The C entry point of `newlink`.
    ///
    /// # Safety
    ///
    /// `name` must be a string and `ndev` a net device, both for the length of the call, which
    /// must be in process context.
    unsafe extern "C" fn newlink(name: *const ffi::c_char, ndev: *mut net_device) -> ffi::c_int {
        // SAFETY: By the safety requirements.
        let (name, ndev, sleep) = unsafe {
            (
                CStr::from_char_ptr(name),
                NetDevice::from_raw(ndev.cast()),
                MaySleep::assume(),
            )
        };
        kernel::error::from_result(|| L::newlink(name, ndev, &sleep).map(|()| 0))
    }

    /// The C entry point of `dellink`.
    ///
    /// # Safety
    ///
    /// `dev` must be a device with this link, so one of `L::Device` by [`NewDevice::set_link`], referenced for the length of the
    /// call, which must be in process context.
    unsafe extern "C" fn dellink(dev: *mut ib_device) -> ffi::c_int {
        // SAFETY: By the safety requirements.
        let (dev, sleep) = unsafe { (Device::from_raw(dev), MaySleep::assume()) };
        kernel::error::from_result(|| L::dellink(dev, &sleep).map(|()| 0))
    }
}

impl<P: Provider> NewDevice<P> {
    /// Sets the link type of the device, which `rdma link delete` uses. The name of such a device counts
    /// as set by the user, so that udev does not rename it.
    pub fn set_link<L: LinkOps<Device = P>>(&mut self, link: &'static Link<L>) {
        // SAFETY: By the type invariants the device is not shared; the link is a static.
        unsafe {
            (*self.as_raw()).link_ops = link.as_raw();
            (*self.as_raw()).name_assign_type = bindings::RDMA_NAME_ASSIGN_TYPE_USER;
        }
    }
}

/// The registration of a link type; dropping it unregisters the type.
///
/// # Invariants
///
/// The structure is on the core's list.
pub struct Registration {
    ops: *mut rdma_link_ops,
    registered: &'static AtomicBool,
}

// SAFETY: The core's list may be used from any thread.
unsafe impl Send for Registration {}
// SAFETY: A shared reference has no methods.
unsafe impl Sync for Registration {}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the structure is on the core's list.
        unsafe { bindings::rdma_link_unregister(self.ops) };
        self.registered.store(false, Ordering::Release);
    }
}
