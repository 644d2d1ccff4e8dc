// SPDX-License-Identifier: GPL-2.0

//! Members of a memory region that belong to a pool of registration handles.
//!
//! A driver that registers memory through handles, which the device makes slowly, has the core keep those that are not in
//! use in pools: one for each kind of handle, which a key says.
//!
//! C header: `include/rdma/frmr_pools.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_frmr_key, ib_mr};

use super::{Device, Mr};

/// What handles are good for. Handles of one pool are alike in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrmrKey {
    /// With translation of addresses by the device (PCIe ATS).
    pub ats: bool,
    /// `enum ib_access_flags`.
    pub access_flags: i32,
    /// A matter of the driver's, which administrators may name.
    pub vendor_key: u64,
    /// A matter of the driver's; 0 for pools that administrators may fill.
    pub kernel_vendor_key: u64,
    /// How many blocks of memory a handle has room for.
    pub dma_blocks: usize,
}

impl FrmrKey {
    pub(crate) fn from_raw(raw: &ib_frmr_key) -> Self {
        Self {
            ats: raw.ats() != 0,
            access_flags: raw.access_flags,
            vendor_key: raw.vendor_key,
            kernel_vendor_key: raw.kernel_vendor_key,
            dma_blocks: raw.num_dma_blocks,
        }
    }

    pub(crate) fn to_raw(self) -> ib_frmr_key {
        let mut raw: ib_frmr_key = pin_init::zeroed();
        raw.set_ats(self.ats.into());
        raw.access_flags = self.access_flags;
        raw.vendor_key = self.vendor_key;
        raw.kernel_vendor_key = self.kernel_vendor_key;
        raw.num_dma_blocks = self.dma_blocks;
        raw
    }

    /// Whether handles of a pool with this key are good for a region that asks for another one: they are alike, and have
    /// room for as many blocks, but for less than twice as many.
    pub fn is_good_for(&self, wanted: &Self) -> bool {
        let alike = Self {
            dma_blocks: wanted.dma_blocks,
            ..*self
        };
        let spare = self.dma_blocks.checked_sub(wanted.dma_blocks);
        alike == *wanted && spare.is_some_and(|spare| spare == 0 || spare < wanted.dma_blocks)
    }
}

/// A pool, as regions refer to it.
///
/// # Safety
///
/// One type of a module implements it, the module is the core, and regions are given references to no other.
pub unsafe trait FrmrPool: Send + Sync {}

impl Mr {
    /// What kind of handle the region asks for, as the driver has filled it in.
    pub fn frmr_key(&self) -> FrmrKey {
        // SAFETY: The driver makes the region: it is the only one that uses the member.
        FrmrKey::from_raw(unsafe { &(*self.as_raw()).frmr.key })
    }

    /// Gives the region a handle, and the pool that this is of.
    pub fn set_frmr<T: FrmrPool>(&self, pool: Arc<T>, handle: u32) {
        // SAFETY: As above.
        unsafe {
            (*self.as_raw()).frmr.pool = Arc::into_raw(pool).cast_mut().cast();
            (*self.as_raw()).frmr.handle = handle;
        }
    }
}

/// The handle that a driver takes from a region, and the pool that it is of. The region's member stays as it was: drivers
/// look there for whether the region had a handle from a pool.
pub struct GivenFrmr<T: FrmrPool> {
    /// The pool.
    pub pool: Arc<T>,
    /// The handle.
    pub handle: u32,
}

// SAFETY: The header says so of the functions that take a handle from a region.
unsafe impl<T: FrmrPool> FromC for GivenFrmr<T> {
    type Raw = *mut ib_mr;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: The region has a handle from `set_frmr`, which the driver gives up, once. By the safety requirements of
        // `FrmrPool` it is of this type.
        unsafe {
            let frmr = &(*raw).frmr;
            Self {
                pool: Arc::from_raw(frmr.pool.cast::<T>()),
                handle: frmr.handle,
            }
        }
    }
}

impl Device {
    /// Whether regions may have such access: `enum ib_access_flags`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for flags that do not go together or that there are not, `EOPNOTSUPP` for what the device cannot.
    pub fn check_mr_access(&self, flags: u32) -> Result {
        // SAFETY: The device is there.
        kernel::error::to_result(unsafe { bindings::ib_check_mr_access(self.as_raw(), flags) })
    }
}
