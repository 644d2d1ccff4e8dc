// SPDX-License-Identifier: GPL-2.0

//! Address vectors and source GIDs by the exported functions of the core, so that they work on any `ib_core`.
//!
//! C headers: `include/rdma/ib_verbs.h`, `include/rdma/ib_cache.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{error::to_result, prelude::*};
use rdma_bindings::{self as bindings, ib_gid_attr, rdma_ah_attr};

use crate::{
    core::{path::Path, Device},
    Gid, MaySleep,
};

/// A source GID, to which somebody has a reference for `'a`.
///
/// # Invariants
///
/// The attribute is valid for `'a`.
#[derive(Clone, Copy)]
pub struct Sgid<'a>(NonNull<ib_gid_attr>, PhantomData<&'a ib_gid_attr>);

// SAFETY: The members that are read are constant.
unsafe impl Send for Sgid<'_> {}
// SAFETY: As above.
unsafe impl Sync for Sgid<'_> {}

impl<'a> Sgid<'a> {
    /// The GID of a pointer of C, if it is not null.
    ///
    /// # Safety
    ///
    /// The pointer is null, or somebody has a reference to the attribute for `'a`.
    pub unsafe fn from_raw(raw: *const ib_gid_attr) -> Option<Self> {
        // INVARIANT: By the safety requirements.
        NonNull::new(raw.cast_mut()).map(|raw| Self(raw, PhantomData))
    }

    /// The C structure.
    pub(in crate::core) fn as_raw(self) -> *const ib_gid_attr {
        self.0.as_ptr()
    }

    /// The port.
    pub fn port(self) -> u32 {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).port_num }
    }

    /// Whether the GID is one of the device.
    pub fn is_of(self, device: &Device) -> bool {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).device == device.as_raw() }
    }

    /// The type: `enum ib_gid_type`.
    pub fn kind(self) -> bindings::ib_gid_type {
        // SAFETY: By the type invariants; the member is constant.
        unsafe { (*self.as_raw()).gid_type }
    }
}

/// The port of a device that has a GID of the type of a path. Any context.
pub fn port_of_gid(device: &Device, path: &Path) -> Option<u32> {
    // SAFETY: The device is registered during the call, by its type; a null net device means any. The reference is put at once.
    unsafe {
        let found = bindings::rdma_find_gid(
            device.as_raw(),
            &path.sgid().to_raw(),
            path.kind().gid_type(),
            core::ptr::null_mut(),
        );
        let found = kernel::error::from_err_ptr(found.cast_mut()).ok()?;
        let port = (*found).port_num;
        bindings::rdma_put_gid_attr(found);
        Some(port)
    }
}

/// The index of a partition key of a port. Any context.
///
/// # Errors
///
/// `ENOENT` if the port does not have it.
pub fn pkey_index(device: &Device, port: u32, pkey: u16) -> Result<u16> {
    let mut index = 0;
    // SAFETY: The device is registered during the call, by its type.
    to_result(unsafe { bindings::ib_find_cached_pkey(device.as_raw(), port, pkey, &mut index) })?;
    Ok(index)
}

/// The partition key at an index of a port. Any context.
///
/// # Errors
///
/// `EINVAL` without such an index.
pub fn pkey_at(device: &Device, port: u32, index: u16) -> Result<u16> {
    let mut pkey = 0;
    // SAFETY: The device is registered during the call, by its type.
    to_result(unsafe {
        bindings::ib_get_cached_pkey(device.as_raw(), port, index.into(), &mut pkey)
    })?;
    Ok(pkey)
}

/// The first GID of a port. Any context.
///
/// # Errors
///
/// `EINVAL`, `ENOENT`.
pub fn first_gid(device: &Device, port: u32) -> Result<Gid> {
    let mut gid: bindings::ib_gid = pin_init::zeroed();
    // SAFETY: The device is registered during the call, by its type.
    to_result(unsafe { bindings::rdma_query_gid(device.as_raw(), port, 0, &mut gid) })?;
    Ok(Gid::from_raw(&gid))
}

/// An address vector, which owns a reference to its source GID, if it has one.
///
/// # Invariants
///
/// A function of the core has filled the structure in.
pub struct AddressVector(rdma_ah_attr);

// SAFETY: References to GIDs may be put by any thread.
unsafe impl Send for AddressVector {}
// SAFETY: Shared references only read.
unsafe impl Sync for AddressVector {}

impl AddressVector {
    /// The address of a path from a port of the device. For RoCE it is resolved, unless the path says that it is.
    ///
    /// # Errors
    ///
    /// Those of resolving: `EINVAL`, `ENODEV`, `EHOSTUNREACH`, `ETIMEDOUT`.
    pub fn of_path(
        device: &Device,
        port: u32,
        path: &mut Path,
        sgid: Option<Sgid<'_>>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        device.check_port(port)?;
        let mut raw: rdma_ah_attr = pin_init::zeroed();
        let sgid = sgid.map_or(core::ptr::null(), Sgid::as_raw);
        // SAFETY: The device is registered during the call, by its type, and has the port; the path and the GID are valid.
        to_result(unsafe {
            bindings::ib_init_ah_attr_from_path(
                device.as_raw(),
                port,
                path.as_raw(),
                &mut raw,
                sgid,
            )
        })?;
        // INVARIANT: The function has filled it in.
        Ok(Self(raw))
    }

    /// The address of what `f` fills in.
    ///
    /// # Errors
    ///
    /// Those of `f`.
    ///
    /// # Safety
    ///
    /// `f` lets a function of the core fill the structure in, unless it fails.
    pub(crate) unsafe fn with(f: impl FnOnce(&mut rdma_ah_attr) -> Result) -> Result<Self> {
        let mut raw = pin_init::zeroed();
        f(&mut raw)?;
        // INVARIANT: By the safety requirements.
        Ok(Self(raw))
    }

    /// The C structure.
    pub(in crate::core) fn raw(&self) -> &rdma_ah_attr {
        &self.0
    }

    /// The source GID.
    pub fn sgid(&self) -> Option<Sgid<'_>> {
        // SAFETY: By the type invariants the address has a reference.
        unsafe { Sgid::from_raw(self.0.grh.sgid_attr) }
    }

    /// Whether it is one of RoCE.
    pub fn is_roce(&self) -> bool {
        self.0.type_ == bindings::RDMA_AH_ATTR_TYPE_ROCE
    }

    /// Whether it is one of InfiniBand.
    pub fn is_ib(&self) -> bool {
        self.0.type_ == bindings::RDMA_AH_ATTR_TYPE_IB
    }

    /// The Ethernet address of the next hop, for RoCE.
    pub fn dmac(&self) -> Option<[u8; 6]> {
        if !self.is_roce() {
            return None;
        }
        // SAFETY: The type selects the member of the union, of which any bytes are valid.
        Some(unsafe { self.0.__bindgen_anon_1.roce.dmac })
    }

    /// The hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.0.grh.hop_limit
    }

    /// Whether it has a destination LID, which an alternate path needs.
    pub fn has_dlid(&self) -> bool {
        // SAFETY: The type selects the member of the union, of which any bytes are valid.
        self.is_ib() && unsafe { self.0.__bindgen_anon_1.ib.dlid } != 0
    }

    /// Calls `f` with a copy of the structure, for a function of the core that makes an address handle of it and gives it back unchanged.
    pub(crate) fn lend<R>(&self, f: impl FnOnce(*mut rdma_ah_attr) -> R) -> R {
        let mut copy = self.0;
        f(&mut copy)
    }
}

impl Drop for AddressVector {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the reference is that of the structure, which is given up.
        unsafe { bindings::rdma_destroy_ah_attr(&mut self.0) };
    }
}
