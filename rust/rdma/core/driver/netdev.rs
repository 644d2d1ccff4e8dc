// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that accelerates net devices, IPoIB and the Omni-Path virtual NIC: `alloc_rdma_netdev`,
//! `rdma_netdev_get_params`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, ffi::c_int, prelude::*};
use kernel_ext::{entry::FromC, error::EOPNOTSUPP, net::device::NetDevice};
use rdma_bindings::{self as bindings, net_device, rdma_netdev_alloc_params, rdma_netdev_t};

use crate::{core::Device, MaySleep};

/// The C function that sets up a new net device.
type Setup = Option<unsafe extern "C" fn(*mut net_device)>;

/// What a net device is for: a device, its port and a type (`enum rdma_netdev_t`). Each is an argument of C. The values do not
/// outlive the call, and no exported function takes two of a kind, so those that meet belong together.
pub struct NetdevFor<'a> {
    /// The device.
    pub device: NetdevDevice<'a>,
    /// The number of the port.
    pub port: NetdevPort<'a>,
    /// The type.
    pub kind: NetdevKind<'a>,
}

/// The device of a [`NetdevFor`].
pub struct NetdevDevice<'a>(&'a Device);

/// The port of a [`NetdevFor`].
pub struct NetdevPort<'a>(u32, PhantomData<&'a Device>);

/// The type of a [`NetdevFor`].
pub struct NetdevKind<'a>(u32, PhantomData<&'a Device>);

/// The setup function of a net device, as an argument of C.
///
/// # Invariants
///
/// By the header it sets up a net device with the parameters of the [`NetdevFor`] that C passes with it.
pub struct NetdevSetup<'a>(Setup, PhantomData<&'a Device>);

/// A net device that no driver has initialised yet, as an argument of C.
///
/// # Invariants
///
/// By the header it is from `rdma_alloc_netdev` with the [`NetdevFor`] that C passes with it, not registered, and passed once.
pub struct NewNetdev<'a>(&'a NetDevice);

// SAFETY: `Raw` is the type in the header.
unsafe impl<'a> FromC for NetdevDevice<'a> {
    type Raw = <&'a Device as FromC>::Raw;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { <&Device>::from_c(raw) })
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for NetdevPort<'_> {
    type Raw = u32;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the enumeration in the header.
unsafe impl FromC for NetdevKind<'_> {
    type Raw = rdma_netdev_t;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for NetdevSetup<'_> {
    type Raw = Setup;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the safety requirements and the header.
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the type in the header.
unsafe impl<'a> FromC for NewNetdev<'a> {
    type Raw = <&'a NetDevice as FromC>::Raw;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // INVARIANT: By the safety requirements and the header.
        // SAFETY: By the safety requirements.
        Self(unsafe { <&NetDevice>::from_c(raw) })
    }
}

impl<'a> NetdevFor<'a> {
    /// Queries the driver's parameters.
    fn params(&self) -> Result<rdma_netdev_alloc_params> {
        let device = self.device.0;
        let call = op!(device, rdma_netdev_get_params).ok_or(EOPNOTSUPP)?;
        let mut raw = pin_init::zeroed();
        // SAFETY: The device and `raw` are valid during the call.
        to_result(unsafe { call(device.as_raw(), self.port.0, self.kind.0, &mut raw) })?;
        Ok(raw)
    }

    /// Allocates a net device with the driver's parameters, which is not registered yet.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver has no parameters, `ENOMEM`, and those of the driver.
    pub fn alloc(
        self,
        name: &CStr,
        name_assign_type: u8,
        NetdevSetup(setup, _): NetdevSetup<'a>,
        _sleep: &MaySleep,
    ) -> Result<NonNull<net_device>> {
        let params = self.params()?;
        let private = c_int::try_from(params.sizeof_priv).map_err(|_| ENOMEM)?;
        // SAFETY: By the type invariants the function sets up a net device with as much private data as the parameters say.
        let ndev = unsafe {
            bindings::alloc_netdev_mqs(
                private,
                name.as_char_ptr(),
                name_assign_type,
                setup,
                params.txqs,
                params.rxqs,
            )
        };
        NonNull::new(ndev.cast()).ok_or(ENOMEM)
    }

    /// Lets the driver initialise its part of a net device.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EOPNOTSUPP` where it has no parameters, or no initialisation function.
    pub fn initialize(self, NewNetdev(ndev): NewNetdev<'a>, _sleep: &MaySleep) -> Result {
        let params = self.params()?;
        let call = params.initialize_rdma_netdev.ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver has returned the function and its parameter together. By the type invariants the net device is new,
        // and has the driver's part.
        to_result(unsafe {
            call(
                self.device.0.as_raw(),
                self.port.0,
                ndev.as_raw().cast(),
                params.param,
            )
        })
    }
}
