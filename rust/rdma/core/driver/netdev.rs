// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver that accelerates net devices, IPoIB and the Omni-Path virtual NIC: `alloc_rdma_netdev`,
//! `rdma_netdev_get_params`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, ffi::c_int, prelude::*};
use kernel_ext::{entry::FromC, error::EOPNOTSUPP, net::device::NetDevice};
use rdma_bindings::{self as bindings, net_device, rdma_netdev_alloc_params};

use crate::{core::Device, MaySleep};

/// The C function that sets up a new net device.
type Setup = Option<unsafe extern "C" fn(*mut net_device)>;

/// The setup function of a net device, as an argument of C.
pub struct NetdevSetup(Setup);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for NetdevSetup {
    type Raw = Setup;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// The parameters that a driver wants for a net device on a port.
pub struct NetdevParams<'a> {
    device: &'a Device,
    port: u32,
    raw: rdma_netdev_alloc_params,
}

impl Device {
    /// Queries the driver's parameters for a net device of a type (`enum rdma_netdev_t`) on a port.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver lacks the method, and those of the driver.
    pub fn driver_netdev_params(
        &self,
        port: u32,
        kind: u32,
        _sleep: &MaySleep,
    ) -> Result<NetdevParams<'_>> {
        let call = op!(self, rdma_netdev_get_params).ok_or(EOPNOTSUPP)?;
        let mut raw = pin_init::zeroed();
        // SAFETY: `self` and `raw` are valid during the call.
        to_result(unsafe { call(self.as_raw(), port, kind, &mut raw) })?;
        Ok(NetdevParams {
            device: self,
            port,
            raw,
        })
    }
}

impl NetdevParams<'_> {
    /// Allocates a net device, which is not registered yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn alloc(
        &self,
        name: &CStr,
        name_assign_type: u8,
        setup: NetdevSetup,
    ) -> Result<NonNull<net_device>> {
        let private = c_int::try_from(self.raw.sizeof_priv).map_err(|_| ENOMEM)?;
        // SAFETY: By the header a `NetdevSetup` sets up a net device with as much private data as the driver's parameters say.
        let ndev = unsafe {
            bindings::alloc_netdev_mqs(
                private,
                name.as_char_ptr(),
                name_assign_type,
                setup.0,
                self.raw.txqs,
                self.raw.rxqs,
            )
        };
        NonNull::new(ndev.cast()).ok_or(ENOMEM)
    }

    /// Lets the driver initialise its part of a net device that is not registered yet.
    ///
    /// # Errors
    ///
    /// Those of the driver; `EOPNOTSUPP` where it has no initialisation function.
    pub fn initialize(&self, ndev: &NetDevice) -> Result {
        let call = self.raw.initialize_rdma_netdev.ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver has returned the function and its parameter together, and the net device is new.
        to_result(unsafe {
            call(
                self.device.as_raw(),
                self.port,
                ndev.as_raw().cast(),
                self.raw.param,
            )
        })
    }
}
