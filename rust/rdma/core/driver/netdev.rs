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

/// What makes a new net device one of its kind, as C has it.
type Setup = Option<unsafe extern "C" fn(*mut net_device)>;

/// What makes a new net device one of its kind, as an argument of C.
pub struct NetdevSetup(Setup);

// SAFETY: The same on both sides.
unsafe impl FromC for NetdevSetup {
    type Raw = Setup;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw)
    }
}

/// What a driver wants of a net device on a port of its device.
pub struct NetdevParams<'a> {
    device: &'a Device,
    port: u32,
    raw: rdma_netdev_alloc_params,
}

impl Device {
    /// Asks what the driver wants of a net device of a kind, `enum rdma_netdev_t`, on a port.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where the driver has no hand in them; what it answers.
    pub fn driver_netdev_params(
        &self,
        port: u32,
        kind: u32,
        _sleep: &MaySleep,
    ) -> Result<NetdevParams<'_>> {
        let call = op!(self, rdma_netdev_get_params).ok_or(EOPNOTSUPP)?;
        let mut raw = pin_init::zeroed();
        // SAFETY: The driver fills in what it wants.
        to_result(unsafe { call(self.as_raw(), port, kind, &mut raw) })?;
        Ok(NetdevParams {
            device: self,
            port,
            raw,
        })
    }
}

impl NetdevParams<'_> {
    /// Allocates a net device, which nobody knows yet.
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
        // SAFETY: The header says that a `NetdevSetup` sets up a net device with as many private bytes as the driver asks for.
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

    /// Has the driver make its part of a net device that is not registered yet.
    ///
    /// # Errors
    ///
    /// What the driver answers; `EOPNOTSUPP` where it makes none.
    pub fn initialize(&self, ndev: &NetDevice) -> Result {
        let call = self.raw.initialize_rdma_netdev.ok_or(EOPNOTSUPP)?;
        // SAFETY: The driver has asked for this parameter.
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
