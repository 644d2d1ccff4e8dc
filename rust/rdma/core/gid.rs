// SPDX-License-Identifier: GPL-2.0

//! Entries of GID tables with their reference count: `struct ib_gid_attr`.
//!
//! An entry is a reference-counted object around the C structure. C code takes and drops references in any context; the
//! last one frees the entry immediately. The net device of an entry may be removed while RCU readers use it, so its
//! reference is dropped after a grace period.
//!
//! C headers: `include/rdma/ib_cache.h`, `include/rdma/ib_verbs.h`.

use core::{
    cell::UnsafeCell,
    ffi::c_void,
    mem::MaybeUninit,
    ops::Deref,
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering},
};

use kernel::{
    prelude::*,
    sync::{aref::ARef, rcu, Arc},
    types::Opaque,
};
use kernel_ext::{
    entry::{FromC, IntoC},
    net::device::{MacAddress, NetDevice},
    rcu_box::RcuBox,
};
use rdma_bindings::{ib_device, ib_gid, ib_gid_attr, net_device};

use super::Device;
use crate::{Gid, GidAttr, GidType};

impl From<ib_gid> for Gid {
    fn from(raw: ib_gid) -> Self {
        Self::from_raw(&raw)
    }
}

impl Gid {
    /// The subnet prefix: the first 8 bytes, as a number.
    pub fn subnet_prefix(&self) -> u64 {
        u64::from_be_bytes(*self.0.first_chunk().unwrap_or(&[0; 8]))
    }
}

/// The GID table that entries belong to.
pub trait GidTable: Send + Sync + 'static {
    /// Called when the last reference to the entry `index` is dropped. Any context.
    fn left(&self, index: u16);
}

/// The properties of a new entry.
pub struct NewGid<'a> {
    /// The GID.
    pub gid: Gid,
    /// The GID type.
    pub gid_type: GidType,
    /// The port, from 1.
    pub port_num: u32,
    /// The index in the port's table.
    pub index: u16,
    /// The net device that the GID belongs to.
    pub ndev: Option<&'a NetDevice>,
}

/// The driver was not asked to add the entry.
const NEW: u8 = 0;
/// The driver has added the entry.
const ADDED: u8 = 1;
/// The driver has not added the entry, or was asked to delete it.
const GONE: u8 = 2;

/// An entry of a GID table.
///
/// # Invariants
///
/// The members of `attr` are constant, except for `ndev`. That is null, or the device in `owned`, which RCU readers may
/// use for a grace period after `ndev` became null. Only the thread that sets `ndev` to null takes `owned`.
#[repr(C)]
pub struct GidEntry {
    attr: Opaque<ib_gid_attr>,
    owned: UnsafeCell<Option<RcuBox<ARef<NetDevice>>>>,
    context: AtomicPtr<c_void>,
    valid: AtomicBool,
    /// Whether the driver has the entry: [`NEW`], [`ADDED`] or [`GONE`].
    in_driver: AtomicU8,
    table: Arc<dyn GidTable>,
}

// SAFETY: Devices and tables may be used from any thread.
unsafe impl Send for GidEntry {}
// SAFETY: By the type invariants only `ndev` changes, atomically, and one thread takes `owned`.
unsafe impl Sync for GidEntry {}

impl GidEntry {
    /// Allocates an entry for a table of `device`, which is not in the table yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(device: &Device, table: Arc<dyn GidTable>, new: &NewGid<'_>) -> Result<Arc<Self>> {
        let owned = match new.ndev {
            Some(ndev) => Some(RcuBox::new(ARef::from(ndev), GFP_KERNEL)?),
            None => None,
        };
        let attr = ib_gid_attr {
            ndev: new.ndev.map_or(null_mut(), NetDevice::as_raw),
            device: device.as_raw(),
            gid: new.gid.to_raw(),
            gid_type: new.gid_type.as_raw(),
            index: new.index,
            port_num: new.port_num,
        };
        // INVARIANT: `ndev` is the device in `owned`.
        let entry = Self {
            attr: Opaque::new(attr),
            owned: UnsafeCell::new(owned),
            context: AtomicPtr::new(null_mut()),
            valid: AtomicBool::new(false),
            in_driver: AtomicU8::new(NEW),
            table,
        };
        Ok(Arc::new(entry, GFP_KERNEL)?)
    }

    /// The C structure.
    #[inline]
    pub fn as_raw(&self) -> *mut ib_gid_attr {
        self.attr.get()
    }

    #[inline]
    fn as_attr(&self) -> &GidAttr {
        // SAFETY: The structure is a member of `self`.
        unsafe { GidAttr::from_raw(self.as_raw()) }
    }

    /// The GID.
    #[inline]
    pub fn gid(&self) -> Gid {
        self.as_attr().gid()
    }

    /// The GID type.
    #[inline]
    pub fn gid_type(&self) -> GidType {
        self.as_attr().gid_type()
    }

    /// The index in the port's table.
    #[inline]
    pub fn index(&self) -> u16 {
        self.as_attr().index()
    }

    /// The port, from 1.
    #[inline]
    pub fn port_num(&self) -> u32 {
        self.as_attr().port_num()
    }

    #[inline]
    fn ndev_slot(&self) -> &AtomicPtr<net_device> {
        // SAFETY: The member is valid as long as `self`; C reads it by a single load, and Rust accesses it atomically.
        unsafe { AtomicPtr::from_ptr(&raw mut (*self.as_raw()).ndev) }
    }

    /// The net device that the GID belongs to.
    #[inline]
    pub fn ndev<'g>(&self, _guard: &'g rcu::Guard) -> Option<&'g NetDevice> {
        let ndev = NonNull::new(self.ndev_slot().load(Ordering::Acquire))?;
        // SAFETY: By the type invariants the device is valid until a grace period after `ndev` became null, and the guard
        // is an RCU reader.
        Some(unsafe { NetDevice::from_raw(ndev.as_ptr()) })
    }

    /// Whether the GID belongs to `ndev`.
    #[inline]
    pub fn is_on(&self, ndev: &NetDevice) -> bool {
        self.ndev_slot().load(Ordering::Relaxed) == ndev.as_raw()
    }

    /// Removes the net device from the entry.
    pub fn take_ndev(&self) {
        if self
            .ndev_slot()
            .swap(null_mut(), Ordering::AcqRel)
            .is_null()
        {
            return;
        }
        // SAFETY: By the type invariants only this thread takes `owned`: one exchange of `ndev` returns the device.
        let owned = unsafe { (*self.owned.get()).take() };
        drop(owned);
    }

    /// Whether the entry is in its table.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.valid.load(Ordering::Acquire)
    }

    /// Sets whether the entry is in its table. Called by the table.
    #[inline]
    pub fn set_valid(&self, valid: bool) {
        self.valid.store(valid, Ordering::Release);
    }

    /// The driver's context of the entry.
    #[inline]
    pub fn context(&self) -> *mut c_void {
        self.context.load(Ordering::Acquire)
    }

    /// Calls `add`, by which the driver gets the entry, unless it was called before.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it was called before, and those of `add`.
    pub(super) fn add_to_driver(&self, add: impl FnOnce() -> Result) -> Result {
        let first =
            self.in_driver
                .compare_exchange(NEW, GONE, Ordering::Relaxed, Ordering::Relaxed);
        first.map_err(|_| EEXIST)?;
        add()?;
        self.in_driver.store(ADDED, Ordering::Release);
        Ok(())
    }

    /// Whether the driver has the entry, which it loses now: true once.
    pub(super) fn take_from_driver(&self) -> bool {
        self.in_driver
            .compare_exchange(ADDED, GONE, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// The device.
    #[inline]
    pub(super) fn device(&self) -> *mut ib_device {
        // SAFETY: By the type invariants the member is constant.
        unsafe { (*self.as_raw()).device }
    }

    /// The place of the driver's context.
    #[inline]
    pub fn context_slot(&self) -> *mut *mut c_void {
        self.context.as_ptr()
    }
}

impl Drop for GidEntry {
    fn drop(&mut self) {
        self.table.left(self.index());
    }
}

/// A counted reference to an entry, which C holds as a `const struct ib_gid_attr *`.
///
/// As an argument of a C entry point it takes over C's reference.
#[derive(Clone)]
pub struct GidRef(Arc<GidEntry>);

impl GidRef {
    /// Creates a reference for C.
    #[inline]
    pub fn new(entry: Arc<GidEntry>) -> Self {
        Self(entry)
    }

    /// Hands the reference over to C.
    #[inline]
    pub fn into_raw(self) -> *const ib_gid_attr {
        // The structure is the entry's first member.
        Arc::into_raw(self.0).cast()
    }

    /// Takes a reference back from C.
    ///
    /// # Safety
    ///
    /// `raw` is from [`Self::into_raw`], and the caller hands over the reference.
    #[inline]
    pub unsafe fn from_raw(raw: *const ib_gid_attr) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { Arc::from_raw(raw.cast()) })
    }
}

impl Deref for GidRef {
    type Target = GidEntry;

    #[inline]
    fn deref(&self) -> &GidEntry {
        &self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for GidRef {
    type Raw = *const ib_gid_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the header the function takes over a reference to an entry, and only `GidEntry::new` makes entries.
        unsafe { Self::from_raw(raw) }
    }
}

/// An entry that C lends for a call.
#[derive(Clone, Copy)]
pub struct BorrowedGid<'a>(&'a GidEntry);

impl<'a> BorrowedGid<'a> {
    /// Borrows the entry of a C structure.
    ///
    /// # Safety
    ///
    /// `raw` is the structure of a [`GidEntry`] that is referenced throughout `'a`.
    #[inline]
    pub unsafe fn from_raw(raw: *const ib_gid_attr) -> Self {
        // SAFETY: By the safety requirements; the structure is the first member of the entry.
        Self(unsafe { &*raw.cast() })
    }

    /// The entry.
    #[inline]
    pub fn entry(self) -> &'a GidEntry {
        self.0
    }

    /// Counts a reference.
    #[inline]
    pub fn hold(self) -> GidRef {
        // SAFETY: Entries are always in an `Arc`. `ManuallyDrop` keeps the borrowed reference; the clone counts its own.
        let entry = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(self.0) });
        GidRef(Arc::clone(&entry))
    }
}

impl Deref for BorrowedGid<'_> {
    type Target = GidEntry;

    #[inline]
    fn deref(&self) -> &GidEntry {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for BorrowedGid<'_> {
    type Raw = *const ib_gid_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements C holds a reference to the entry during the call.
        unsafe { Self::from_raw(raw) }
    }
}

/// A borrowed entry as an argument of C, which may be null.
pub struct BorrowedGidArgument<'a>(pub Option<BorrowedGid<'a>>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for BorrowedGidArgument<'_> {
    type Raw = *const ib_gid_attr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements C holds a reference to the entry during the call, if the pointer is not
        // null.
        Self((!raw.is_null()).then(|| unsafe { BorrowedGid::from_raw(raw) }))
    }
}

/// A reference to an entry for C, or an errno (`ERR_PTR`).
pub struct GidResult(pub Result<GidRef>);

impl IntoC for GidResult {
    type Raw = *const ib_gid_attr;

    #[inline]
    fn into_c(self) -> Self::Raw {
        self.0.map_or_else(|error| error.to_ptr(), GidRef::into_raw)
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for Gid {
    type Raw = *const ib_gid;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the GID is valid; a read of bytes needs no alignment.
        Self(unsafe { raw.cast::<[u8; 16]>().read() })
    }
}

/// A GID that C passes without `const`, though it is only read, and that may be null.
pub struct GidArgument(pub Option<Gid>);

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for GidArgument {
    type Raw = *mut ib_gid;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the GID is valid if the pointer is not null.
        Self((!raw.is_null()).then(|| unsafe { Gid::from_c(raw) }))
    }
}

/// The output argument for an Ethernet address, which may be null.
pub struct MacOut<'a>(Option<&'a mut MaybeUninit<MacAddress>>);

impl MacOut<'_> {
    /// Writes the address, if C wants it.
    #[inline]
    pub fn set(self, address: MacAddress) {
        if let Some(place) = self.0 {
            place.write(address);
        }
    }
}

// SAFETY: `Raw` is the pointer type in the header, to the first of 6 bytes.
unsafe impl FromC for MacOut<'_> {
    type Raw = *mut u8;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the memory is valid for writes if the pointer is not null.
        Self(unsafe { raw.cast::<MaybeUninit<MacAddress>>().as_mut() })
    }
}
