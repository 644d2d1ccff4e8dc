// SPDX-License-Identifier: GPL-2.0

//! Calls into a driver for fast registration handles: `struct ib_frmr_pool_ops`.
//!
//! C header: `include/rdma/frmr_pools.h`.

use core::marker::PhantomData;

use kernel::{error::to_result, prelude::*};
use kernel_ext::{entry::FromC, error::EOPNOTSUPP, zeroed::zeroed};
use rdma_bindings::ib_frmr_pool_ops;

use crate::{
    core::{frmr::FrmrKey, Device},
    MaySleep,
};

/// The methods for pools of handles that a driver passes together with its device.
pub struct FrmrOps<'a>(ib_frmr_pool_ops, PhantomData<&'a ()>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for FrmrOps<'_> {
    type Raw = *const ib_frmr_pool_ops;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the table is valid.
        Self(unsafe { *raw }, PhantomData)
    }
}

impl<'a> FrmrOps<'a> {
    /// Joins the methods and the device of a call.
    pub fn of(self, device: &'a Device) -> FrmrDriver {
        // INVARIANT: By the header the methods are those of the driver of the device.
        FrmrDriver {
            ops: self.0,
            device: core::ptr::from_ref(device).addr(),
        }
    }
}

/// A driver's methods for pools of handles.
///
/// # Invariants
///
/// The methods are those of the driver of the device at this address, and valid as long as the device.
#[derive(Clone, Copy)]
pub struct FrmrDriver {
    ops: ib_frmr_pool_ops,
    device: usize,
}

impl FrmrDriver {
    fn is_of(&self, device: &Device) -> bool {
        core::ptr::from_ref(device).addr() == self.device
    }

    /// Creates handles: all of them, or none.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another device, `ENOMEM`, and those of the driver.
    pub fn create(
        &self,
        device: &Device,
        key: &FrmrKey,
        count: u32,
        _sleep: &MaySleep,
    ) -> Result<KVec<u32>> {
        let call = self.ops.create_frmrs.ok_or(EOPNOTSUPP)?;
        if !self.is_of(device) {
            return Err(EINVAL);
        }
        let mut handles: KVec<u32> = zeroed(count as usize, GFP_KERNEL | __GFP_NOWARN)?;
        let mut key = key.to_raw();
        // SAFETY: By the type invariants the device belongs to the driver, and `handles` is valid for writes of `count`
        // handles.
        to_result(unsafe { call(device.as_raw(), &mut key, handles.as_mut_ptr(), count) })?;
        Ok(handles)
    }

    /// Destroys handles, unless the device is another one.
    pub fn destroy(&self, device: &Device, handles: &mut [u32], _sleep: &MaySleep) {
        let (Some(call), Ok(count)) = (self.ops.destroy_frmrs, u32::try_from(handles.len())) else {
            return;
        };
        if count != 0 && self.is_of(device) {
            // SAFETY: By the type invariants the device belongs to the driver, and `handles` holds `count` of its handles.
            unsafe { call(device.as_raw(), handles.as_mut_ptr(), count) };
        }
    }

    /// Lets the driver translate the key that an administrator has given.
    ///
    /// # Errors
    ///
    /// `EINVAL` for another device, and those of the driver.
    pub fn build_key(&self, device: &Device, key: FrmrKey, _sleep: &MaySleep) -> Result<FrmrKey> {
        let Some(call) = self.ops.build_key else {
            return Ok(key);
        };
        if !self.is_of(device) {
            return Err(EINVAL);
        }
        let (from, mut to) = (key.to_raw(), pin_init::zeroed());
        // SAFETY: By the type invariants the device belongs to the driver.
        to_result(unsafe { call(device.as_raw(), &from, &mut to) })?;
        Ok(FrmrKey::from_raw(&to))
    }
}
