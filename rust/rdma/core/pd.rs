// SPDX-License-Identifier: GPL-2.0

//! Protection domains and XRC domains: `struct ib_pd`, `struct ib_xrcd`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::ptr::NonNull;

use kernel::{error::to_result, prelude::*};
use kernel_ext::{
    entry::view_of,
    rwsem::{RwSem, WriteGuard},
};
use rdma_bindings::{self as bindings, ib_pd, ib_xrcd, inode};

use super::{
    mr::InternalMr,
    object::{constants, counted, driver_object, links, tracked, Failed, Fresh, Owned},
    Device, DeviceMemory, Pd, Qp, Xrcd,
};
use crate::MaySleep;

// Readers of the number of a region's domain do not lock the region, so the memory is freed after a grace
// period.
driver_object!(Pd, size_ib_pd, RCU; RDMA_RESTRACK_PD);
counted!(Pd);
tracked!(Pd);

impl Pd {
    links! {
        /// The device.
        device: Device = device;
    }
    constants! {
        /// The local key of all memory. Constant after the allocation.
        local_dma_lkey: u32 = local_dma_lkey;
    }
}

impl Fresh<Pd> {
    /// Allocates a protection domain of a client in the kernel, with `enum ib_pd_flags`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_pd(device: &Device, flags: u32, sleep: &MaySleep) -> Result<Self> {
        let mut pd = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_pd = pd.raw();
        raw.device = device.as_raw();
        raw.flags = flags;
        Ok(pd)
    }
}

impl Owned<Pd> {
    /// Sets the local key of all memory.
    pub fn set_local_dma_lkey(&mut self, lkey: u32) {
        // SAFETY: Only the owner writes the number, by a single store.
        unsafe { (&raw mut (*self.as_raw()).local_dma_lkey).write_volatile(lkey) };
    }

    /// Sets the remote key of all memory.
    pub fn set_unsafe_global_rkey(&mut self, rkey: u32) {
        // SAFETY: Only the owner writes the number, by a single store.
        unsafe { (&raw mut (*self.as_raw()).unsafe_global_rkey).write_volatile(rkey) };
    }

    /// Sets the domain's own region of all memory, which is taken back before the domain is deallocated.
    pub fn set_internal_mr(&mut self, mr: InternalMr) {
        // SAFETY: Only the owner uses the member, and `self` is borrowed mutably.
        unsafe { (*self.as_raw()).__internal_mr = mr.0.into_raw() };
    }

    /// Takes back the domain's own region, before the domain is deallocated.
    pub fn take_internal_mr(&mut self) -> Option<InternalMr> {
        // SAFETY: Only the owner uses the member, and `self` is borrowed mutably.
        let mr = unsafe {
            core::mem::replace(&mut (*self.as_raw()).__internal_mr, core::ptr::null_mut())
        };
        // SAFETY: The domain owned the region.
        NonNull::new(mr).map(|mr| InternalMr(unsafe { Owned::from_raw(mr) }))
    }
}

impl DeviceMemory {
    /// The device's local key of all memory, for a device with `IBK_LOCAL_DMA_LKEY`.
    #[inline]
    pub fn local_dma_lkey(&self) -> u32 {
        // SAFETY: The member is constant from registration on.
        unsafe { (*self.as_raw()).local_dma_lkey }
    }
}

driver_object!(Xrcd, size_ib_xrcd);
counted!(Xrcd);

view_of! {
    /// The inode that identifies an XRC domain.
    pub struct Inode(inode);
}

impl Xrcd {
    links! {
        /// The device.
        device: Device = device;
    }

    /// Whether the domain has target queue pairs.
    pub fn has_targets(&self) -> bool {
        // SAFETY: The array is valid as long as the domain.
        !unsafe { bindings::ib_xrcd_is_empty(self.as_raw()) }
    }

    /// Calls `f` with the target queue pair of a number, if it is published: between [`Self::publish`] and
    /// `LockedTargets::withdraw`.
    ///
    /// `f` runs with the domain's semaphore held for reading.
    pub fn with_target<R>(
        &self,
        qp_num: u32,
        sleep: &MaySleep,
        f: impl FnOnce(&Qp) -> R,
    ) -> Option<R> {
        let _guard = self.targets_rwsem().read(sleep);
        // SAFETY: The semaphore is held.
        let qp = NonNull::new(unsafe { bindings::ib_xrcd_target(self.as_raw(), qp_num) })?;
        // SAFETY: As long as the semaphore is held the queue pair is not withdrawn, and it is withdrawn before
        // it is destroyed.
        Some(f(unsafe { qp.cast::<Qp>().as_ref() }))
    }

    /// Adds a target queue pair to its domain, where it is found by its number, and gives its ownership to its handles: closing
    /// the last one withdraws it from the domain, and returns it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a queue pair without domain, `ENOMEM`.
    pub fn publish(qp: Owned<Qp>, _sleep: &MaySleep) -> Result<(), Failed<Owned<Qp>>> {
        let published = qp.xrcd().ok_or(EINVAL).and_then(|xrcd| {
            // SAFETY: Both structures are valid. `Owned::close_shared` alone makes an owner of the queue pair again, and withdraws
            // it before that.
            to_result(unsafe { bindings::ib_xrcd_publish(xrcd.as_raw(), qp.as_raw()) })
        });
        match published {
            Ok(()) => {
                let _ = qp.into_raw();
                Ok(())
            }
            Err(error) => Err(Failed { object: qp, error }),
        }
    }

    /// Takes the domain's semaphore for writing, which excludes lookups of target queue pairs.
    pub(crate) fn lock_targets<'a>(&'a self, sleep: &MaySleep) -> LockedTargets<'a> {
        // INVARIANT: The semaphore was just taken.
        LockedTargets {
            xrcd: self,
            _guard: self.targets_rwsem().write(sleep),
        }
    }

    fn targets_rwsem(&self) -> &RwSem {
        // SAFETY: The semaphore was initialised with the domain, and is valid as long.
        unsafe { RwSem::from_raw(&raw mut (*self.as_raw()).tgt_qps_rwsem) }
    }
}

/// The target queue pairs of a domain, locked against lookups.
///
/// # Invariants
///
/// The guard is of the domain's `tgt_qps_rwsem`.
pub(crate) struct LockedTargets<'a> {
    xrcd: &'a Xrcd,
    _guard: WriteGuard<'a>,
}

impl LockedTargets<'_> {
    /// Removes a target queue pair from the domain.
    pub(crate) fn withdraw(&self, qp: &Qp) {
        // SAFETY: By the type invariants the semaphore is held for writing.
        unsafe { bindings::ib_xrcd_erase(self.xrcd.as_raw(), qp.qp_num()) };
    }
}

impl Fresh<Xrcd> {
    /// Allocates an XRC domain, identified by an inode if there is one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new_xrcd(device: &Device, inode: Option<&Inode>, sleep: &MaySleep) -> Result<Self> {
        let mut xrcd = Self::alloc(device, Some(sleep))?;
        let raw: &mut ib_xrcd = xrcd.raw();
        raw.device = device.as_raw();
        raw.inode = inode.map_or(core::ptr::null_mut(), Inode::as_raw);
        // SAFETY: This function owns the memory, which is not moved.
        unsafe { bindings::ib_xrcd_init_members(raw) };
        Ok(xrcd)
    }
}
