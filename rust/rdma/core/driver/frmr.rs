// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for fast registration handles: `struct ib_frmr_pool_ops`.
//!
//! C header: `include/rdma/frmr_pools.h`.

use kernel::{error::to_result, prelude::*};
use kernel_ext::{entry::FromC, error::EOPNOTSUPP};
use rdma_bindings::ib_frmr_pool_ops;

use crate::{
    core::{frmr::FrmrKey, Device},
    MaySleep,
};

/// A driver's methods for pools of handles.
///
/// # Invariants
///
/// The methods are valid as long as the driver's devices.
#[derive(Clone, Copy)]
pub struct FrmrDriver(ib_frmr_pool_ops);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for FrmrDriver {
    type Raw = *const ib_frmr_pool_ops;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the table is valid.
        // INVARIANT: The driver's code is valid as long as its devices.
        Self(unsafe { *raw })
    }
}

impl FrmrDriver {
    /// Creates handles: all of them, or none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of the driver.
    pub fn create(
        &self,
        device: &Device,
        key: &FrmrKey,
        count: u32,
        _sleep: &MaySleep,
    ) -> Result<KVec<u32>> {
        let call = self.0.create_frmrs.ok_or(EOPNOTSUPP)?;
        let mut handles = KVec::from_elem(0, count as usize, GFP_KERNEL | __GFP_NOWARN)?;
        let mut key = key.to_raw();
        // SAFETY: The device belongs to the driver, and `handles` is valid for writes of `count`
        // handles.
        to_result(unsafe { call(device.as_raw(), &mut key, handles.as_mut_ptr(), count) })?;
        Ok(handles)
    }

    /// Destroys handles.
    pub fn destroy(&self, device: &Device, handles: &mut [u32], _sleep: &MaySleep) {
        let (Some(call), Ok(count)) = (self.0.destroy_frmrs, u32::try_from(handles.len())) else {
            return;
        };
        if count != 0 {
            // SAFETY: The device belongs to the driver, and `handles` holds `count` of its handles.
            unsafe { call(device.as_raw(), handles.as_mut_ptr(), count) };
        }
    }

    /// Lets the driver translate the key that an administrator has given.
    ///
    /// # Errors
    ///
    /// Those of the driver.
    pub fn build_key(&self, device: &Device, key: FrmrKey, _sleep: &MaySleep) -> Result<FrmrKey> {
        let Some(call) = self.0.build_key else {
            return Ok(key);
        };
        let (from, mut to) = (key.to_raw(), pin_init::zeroed());
        // SAFETY: The device belongs to the driver.
        to_result(unsafe { call(device.as_raw(), &from, &mut to) })?;
        Ok(FrmrKey::from_raw(&to))
    }
}
