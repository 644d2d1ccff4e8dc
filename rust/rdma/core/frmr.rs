// SPDX-License-Identifier: GPL-2.0

//! Members of a memory region that belong to a pool of registration handles.
//!
//! A driver may register memory through handles that are slow to create. The core keeps unused handles in pools, one pool
//! for each key.
//!
//! C header: `include/rdma/frmr_pools.h`.

use kernel::{prelude::*, sync::Arc};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_frmr_key, ib_mr};

use super::Device;

/// The key of a pool: the properties of its handles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FrmrKey {
    /// Whether the device translates addresses itself (PCIe ATS).
    pub ats: bool,
    /// `enum ib_access_flags`.
    pub access_flags: i32,
    /// A key of the driver, which administrators may set.
    pub vendor_key: u64,
    /// A key of the driver's own; 0 for pools that administrators may fill.
    pub kernel_vendor_key: u64,
    /// The capacity of a handle in DMA blocks.
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

    /// Whether handles with this key fit a region that asks for `wanted`: the capacity is at least the wanted one and
    /// less than twice as much, and all other properties are equal.
    pub fn is_good_for(&self, wanted: &Self) -> bool {
        let alike = Self {
            dma_blocks: wanted.dma_blocks,
            ..*self
        };
        let spare = self.dma_blocks.checked_sub(wanted.dma_blocks);
        alike == *wanted && spare.is_some_and(|spare| spare == 0 || spare < wanted.dma_blocks)
    }
}

/// The type of the pools that regions refer to.
///
/// # Safety
///
/// Exactly one type implements it, in the core, so that every pool reference of a region is of this type.
pub unsafe trait FrmrPool: Send + Sync {}

/// The member `frmr` of a region that a driver is creating.
pub struct NewFrmr<'a>(&'a mut bindings::ib_mr__bindgen_ty_2);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for NewFrmr<'_> {
    type Raw = *mut ib_mr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the region is valid. By the header the driver is creating it, has set the key, and uses
        // the member for this call alone.
        Self(unsafe { &mut (*raw).frmr })
    }
}

impl NewFrmr<'_> {
    /// The key that the driver has set in the region.
    pub fn key(&self) -> FrmrKey {
        FrmrKey::from_raw(&self.0.key)
    }

    /// Sets the handle of the region, and the handle's pool.
    pub fn set<T: FrmrPool>(self, pool: Arc<T>, handle: u32) {
        self.0.pool = Arc::into_raw(pool).cast_mut().cast();
        self.0.handle = handle;
    }
}

/// The argument of `ib_frmr_pool_push()`: a region's handle, with the handle's pool. The region's member is not cleared, because
/// drivers read from it whether the region has a handle from a pool.
pub struct FrmrArg<T: FrmrPool> {
    /// The pool.
    pub pool: Arc<T>,
    /// The handle.
    pub handle: u32,
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl<T: FrmrPool> FromC for FrmrArg<T> {
    type Raw = *mut ib_mr;

    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the header the region has a handle from `NewFrmr::set`, which the driver gives up once. By the safety
        // requirements of `FrmrPool` its pool is a `T`.
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
    /// Checks the access flags of a region: `enum ib_access_flags`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for unknown flags or an invalid combination, `EOPNOTSUPP` for access that the device does not support.
    pub fn check_mr_access(&self, flags: u32) -> Result {
        // SAFETY: `self` is a valid device.
        kernel::error::to_result(unsafe { bindings::ib_check_mr_access(self.as_raw(), flags) })
    }
}
