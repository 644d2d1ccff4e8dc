// SPDX-License-Identifier: GPL-2.0

//! Memory regions and windows: `struct ib_mr`, `struct ib_mw`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

use kernel::{error::to_result, ffi, prelude::*};
use kernel_ext::{room::Room, shared_bytes::SharedBytes};
use rdma_bindings::{self as bindings, ib_mr, ib_mw, scatterlist};

use crate::{
    abi::{access::Access, mr::MwType},
    core::Mr as MrView,
    provider::{
        data::ProviderData,
        object::{Base, Object},
    },
    Device, Pd,
};

/// A memory region of a device of `P`.
///
/// Unlike other objects it is allocated here, not by the core. It dereferences to the driver's data.
#[repr(C)]
pub struct Mr<P: ProviderData> {
    base: Base<ib_mr, P>,
    /// The sink for pages while `ib_sg_to_pages` runs; else null. Only the thread that has set the sink resets it.
    page_sink: AtomicPtr<ffi::c_void>,
    data: P::Mr,
}

// SAFETY: The core's part may be used from any thread, and `P::Mr` is `Send` and `Sync`.
unsafe impl<P: ProviderData> Send for Mr<P> {}
// SAFETY: The core's part may be used from any thread, and `P::Mr` is `Send` and `Sync`.
unsafe impl<P: ProviderData> Sync for Mr<P> {}

/// The result of a method that creates an MR.
pub struct NewMr<D> {
    /// The driver's data.
    pub data: D,
    /// The key for local access.
    pub lkey: u32,
    /// The key for remote access; 0 where there is none.
    pub rkey: u32,
}

impl<P: ProviderData> Mr<P> {
    /// Creates an MR in `pd` from the result of `new`. C owns the MR from here on. Null if `new` returns `None`.
    ///
    /// The memory is allocated before `new` is called, so that the driver's part need not be reverted.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and those of `new`.
    pub(crate) fn make(
        pd: &Pd<P>,
        new: impl FnOnce() -> Result<Option<NewMr<P::Mr>>>,
    ) -> Result<*mut ib_mr> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let Some(new) = new()? else {
            return Ok(ptr::null_mut());
        };
        // SAFETY: The structure consists of numbers, pointers that may be null, and members that the core initialises.
        let mut raw: ib_mr = unsafe { core::mem::zeroed() };
        raw.device = pd.base().device().as_raw();
        raw.pd = pd.base().as_raw();
        raw.lkey = new.lkey;
        raw.rkey = new.rkey;
        let mr = Self {
            base: Base::new(raw),
            page_sink: AtomicPtr::new(ptr::null_mut()),
            data: new.data,
        };
        Ok(KBox::into_raw(KBox::write(room, mr)).cast())
    }

    /// Borrows an MR.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Self::make`] and not be destroyed within `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(raw: *mut ib_mr) -> &'a Self {
        // SAFETY: By the safety requirements; `base` comes first.
        unsafe { &*raw.cast() }
    }

    /// Takes an MR back from C.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Self::make`], and must not be used any more.
    pub(crate) unsafe fn take(raw: *mut ib_mr) -> KBox<Self> {
        // SAFETY: By the safety requirements.
        unsafe { KBox::from_raw(raw.cast()) }
    }

    /// The core's part.
    #[inline]
    pub fn base(&self) -> &Base<ib_mr, P> {
        &self.base
    }

    /// The driver's part.
    #[inline]
    pub fn data(&self) -> &P::Mr {
        &self.data
    }

    /// The callback of [`SgList::to_pages`] for a page.
    ///
    /// # Safety
    ///
    /// `raw` must be an MR of a device of `P`, while `to_pages` runs.
    unsafe extern "C" fn set_page(raw: *mut ib_mr, addr: u64) -> ffi::c_int {
        // SAFETY: By the safety requirements.
        let this = unsafe { Self::from_raw(raw) };
        let sink = this.page_sink.load(Ordering::Relaxed);
        // SAFETY: `to_pages` has stored its sink, and returns only after this call; it does not run concurrently for one MR.
        let sink = unsafe { &mut *sink.cast::<&mut dyn FnMut(u64) -> Result>() };
        match sink(addr) {
            Ok(()) => 0,
            Err(err) => err.to_errno(),
        }
    }
}

impl<P: ProviderData> Deref for Mr<P> {
    type Target = P::Mr;

    #[inline]
    fn deref(&self) -> &P::Mr {
        &self.data
    }
}

impl<P: ProviderData> Base<ib_mr, P> {
    /// The device that the MR belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: `device` is set when the MR is made, and outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    fn view(&self) -> &MrView {
        // SAFETY: By the type invariants; the view is a transparent wrapper.
        unsafe { &*self.as_raw().cast() }
    }

    /// The key for local access. Clients change its low byte before a fast registration.
    #[inline]
    pub fn lkey(&self) -> u32 {
        self.view().lkey()
    }

    /// The key for remote access. Clients change its low byte before a fast registration.
    #[inline]
    pub fn rkey(&self) -> u32 {
        self.view().rkey()
    }

    /// The I/O virtual address of the MR. Set by [`SgList::to_pages`], for fast registration.
    #[inline]
    pub fn iova(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).iova).read_volatile() }
    }

    /// The length in bytes. Set by [`SgList::to_pages`].
    #[inline]
    pub fn length(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).length).read_volatile() }
    }

    /// The page size of the mapping in bytes, a power of two. Read by `map_mr_sg`.
    #[inline]
    pub fn page_size(&self) -> u32 {
        self.view().page_size()
    }
}

/// The arguments of `reg_user_mr`.
#[derive(Clone, Copy, Debug)]
pub struct UserMr {
    /// The first address, in the caller's address space.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The I/O virtual address of the first byte.
    pub iova: u64,
    /// The permitted access.
    pub access: Access,
}

/// The changes of `rereg_user_mr`; `None` for a property that does not change.
pub struct Rereg<'a, P: ProviderData> {
    /// The start, the length and the I/O virtual address.
    pub translation: Option<(u64, u64, u64)>,
    /// The permitted access.
    pub access: Option<Access>,
    /// The PD. The core moves the MR's own reference.
    pub pd: Option<&'a Pd<P>>,
}

/// A scatter list that a client maps for fast registration.
///
/// # Invariants
///
/// The list has `nents` DMA-mapped entries, and `offset` is null or valid.
pub struct SgList<'a> {
    list: *mut scatterlist,
    nents: ffi::c_int,
    offset: *mut ffi::c_uint,
    _list: PhantomData<&'a mut scatterlist>,
}

impl SgList<'_> {
    /// The parameters of `map_mr_sg`.
    ///
    /// # Safety
    ///
    /// `list` must have `nents` entries that are mapped for the device, and `offset` must be null or valid, both as long as
    /// the result exists.
    #[inline]
    pub(crate) unsafe fn new(
        list: *mut scatterlist,
        nents: ffi::c_int,
        offset: *mut ffi::c_uint,
    ) -> Self {
        Self {
            list,
            nents,
            offset,
            _list: PhantomData,
        }
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        usize::try_from(self.nents).unwrap_or(0)
    }

    /// Whether the list has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Splits the list into pages of the MR's page size, passes the address of each to `sink`, and sets the MR's address and
    /// length. Returns the number of entries that are mapped completely.
    ///
    /// The addresses are those that [`VirtDma`] takes. When `sink` fails, the mapping ends before that page.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset outside the list; `EBUSY` if another thread is mapping the MR; the error of `sink` for the
    /// first page.
    pub fn to_pages<P: ProviderData>(
        self,
        mr: &Mr<P>,
        mut sink: impl FnMut(u64) -> Result,
    ) -> Result<u32> {
        let mut sink: &mut dyn FnMut(u64) -> Result = &mut sink;
        mr.page_sink
            .compare_exchange(
                ptr::null_mut(),
                (&raw mut sink).cast(),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        // SAFETY: By the type invariants; the callback reads the sink that was just stored.
        let mapped = unsafe {
            bindings::ib_sg_to_pages(
                mr.base.as_raw(),
                self.list,
                self.nents,
                self.offset,
                Some(Mr::<P>::set_page),
            )
        };
        mr.page_sink.store(ptr::null_mut(), Ordering::Release);
        to_result(mapped)?;
        Ok(mapped as u32)
    }
}

/// The right to access kernel memory by address.
///
/// A device that does DMA in software has no DMA addresses: for it, the addresses in the work requests, scatter lists and
/// DMA MRs of clients in the kernel are those of the kernel itself (`ib_virt_dma_to_ptr`). The driver gets this right
/// together with such addresses, which the clients guarantee to be valid, as for any driver. The right is not to be used for
/// an address from user space or, without a registration, from the wire.
#[derive(Clone, Copy, Debug)]
pub struct VirtDma(());

impl VirtDma {
    /// Creates the right to access kernel memory.
    ///
    /// # Safety
    ///
    /// It may only be passed to a driver together with addresses that a client in the kernel guarantees to be valid.
    #[inline]
    pub(crate) const unsafe fn new() -> Self {
        Self(())
    }

    /// Creates the right for a KUnit test, for memory of its own.
    ///
    /// # Errors
    ///
    /// `EPERM` outside of a test.
    #[cfg(CONFIG_KUNIT = "y")]
    pub fn of_test() -> Result<Self> {
        if !kernel::kunit::in_kunit_test() {
            return Err(EPERM);
        }
        Ok(Self(()))
    }

    /// Checks that `len` bytes at `addr` are in the kernel's half of the address space, or in User Mode Linux in its own
    /// address space.
    #[inline]
    pub(super) fn check(addr: u64, len: usize) -> Result<*mut u8> {
        const KERNEL_HALF: u64 = if cfg!(CONFIG_UML) { 1 << 12 } else { 1 << 63 };
        let last = addr.checked_add(len as u64).ok_or(EFAULT)?;
        if addr < KERNEL_HALF || last < KERNEL_HALF {
            return Err(EFAULT);
        }
        Ok(addr as usize as *mut u8)
    }

    /// Copies `len` bytes from the kernel's memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` for addresses outside the kernel's half of the address space, `EINVAL` if `to` is too small.
    #[inline]
    pub fn read(self, addr: u64, len: usize, to: &mut Room<'_>) -> Result {
        let from = Self::check(addr, len)?;
        // SAFETY: By the safety requirements of `VirtDma::new` a client in the kernel guarantees the address; others may
        // write there meanwhile.
        let from = unsafe { SharedBytes::from_raw(from, len) };
        // SAFETY: All bytes are written to `to`, which is valid for writes.
        unsafe { to.write_with(len, |to| from.copy_to_raw(to)) }
    }

    /// Copies to the kernel's memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` as for [`Self::read`].
    #[inline]
    pub fn write(self, addr: u64, from: SharedBytes<'_>) -> Result {
        let to = Self::check(addr, from.len())?;
        // SAFETY: By the safety requirements of `VirtDma::new` a client in the kernel guarantees the address.
        unsafe { from.copy_to_raw(to) };
        Ok(())
    }

    /// The eight bytes at `addr`, for atomic operations.
    ///
    /// # Errors
    ///
    /// `EFAULT` as for [`Self::read`]; `EINVAL` if `addr` is not a multiple of eight.
    #[inline]
    pub fn atomic(&self, addr: u64) -> Result<VirtAtomic<'_>> {
        let at = Self::check(addr, 8)?.cast::<u64>();
        if !at.is_aligned() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements of `VirtDma::new` a client in the kernel guarantees the address.
        Ok(unsafe { VirtAtomic::new(at) })
    }
}

/// Eight bytes of memory that are accessed concurrently.
pub struct VirtAtomic<'a>(&'a AtomicU64);

impl<'a> VirtAtomic<'a> {
    /// Borrows the bytes at `at`.
    ///
    /// # Safety
    ///
    /// `at` must be aligned and stay valid during `'a`.
    #[inline]
    pub(crate) unsafe fn new(at: *mut u64) -> Self {
        // SAFETY: By the safety requirements; other accesses are atomic, or tolerate concurrent changes.
        Self(unsafe { AtomicU64::from_ptr(at) })
    }

    /// The bytes as an atomic number in CPU byte order.
    #[inline]
    pub fn get(&self) -> &'a AtomicU64 {
        self.0
    }
}

/// A memory window of a device of `P`.
pub type Mw<P> = Object<ib_mw, P, <P as ProviderData>::Mw>;

/// The core's part of an MW.
pub type MwBase<P> = Base<ib_mw, P>;

impl<P: ProviderData> Base<ib_mw, P> {
    /// The device that the MW belongs to.
    #[inline]
    pub fn device(&self) -> &Device<P> {
        // SAFETY: The core has set `device`, which outlives its objects.
        unsafe { Device::from_raw((*self.as_raw()).device) }
    }

    /// The PD that the MW belongs to.
    #[inline]
    pub fn pd(&self) -> &Pd<P> {
        // SAFETY: The core has set `pd`, which outlives the MWs in it.
        unsafe { Pd::from_raw((*self.as_raw()).pd) }
    }

    /// The type of the MW.
    #[inline]
    pub fn mw_type(&self) -> Result<MwType> {
        // SAFETY: By the type invariants; the field is constant, and set before the create method.
        MwType::try_from(unsafe { (*self.as_raw()).type_ })
    }

    /// The remote key.
    #[inline]
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).rkey).read_volatile() }
    }

    /// Sets the remote key, when the MW is created and when it is bound.
    #[inline]
    pub fn set_rkey(&self, rkey: u32) {
        // SAFETY: By the type invariants the MW is valid; any value is valid, and a single store writes it.
        unsafe { (&raw mut (*self.as_raw()).rkey).write_volatile(rkey) };
    }
}
