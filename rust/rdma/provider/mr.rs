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
use kernel_ext::room::Room;
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
/// Unlike other objects it is allocated here, not by the core. Dereferences to the driver's
/// data.
#[repr(C)]
pub struct Mr<P: ProviderData> {
    base: Base<ib_mr, P>,
    /// Where `ib_sg_to_pages` sends pages while it runs; else null. Who has put a sink there alone takes it away.
    page_sink: AtomicPtr<ffi::c_void>,
    data: P::Mr,
}

// SAFETY: The core's part may be used from any thread, the driver's part says so itself.
unsafe impl<P: ProviderData> Send for Mr<P> {}
// SAFETY: As above.
unsafe impl<P: ProviderData> Sync for Mr<P> {}

/// What a method returns that makes an MR.
pub struct NewMr<D> {
    /// The driver's data.
    pub data: D,
    /// The key for local access.
    pub lkey: u32,
    /// The key for remote access; 0 where there is none.
    pub rkey: u32,
}

impl<P: ProviderData> Mr<P> {
    /// Makes an MR in `pd` of what `new` says, which C owns from here on; null where it makes none.
    ///
    /// There is room for it before the driver makes its part: what that has put into its tables need not be taken back.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and what `new` says.
    pub(crate) fn make(
        pd: &Pd<P>,
        new: impl FnOnce() -> Result<Option<NewMr<P::Mr>>>,
    ) -> Result<*mut ib_mr> {
        let room = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let Some(new) = new()? else {
            return Ok(ptr::null_mut());
        };
        // SAFETY: The structure consists of numbers, pointers that may be null, and what the core
        // initialises itself.
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
    /// `raw` must come from [`Self::make`], and nobody may use it any more.
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

    /// What [`SgList::to_pages`] calls for a page.
    ///
    /// # Safety
    ///
    /// `raw` must be an MR of a device of `P`, while `to_pages` runs.
    unsafe extern "C" fn set_page(raw: *mut ib_mr, addr: u64) -> ffi::c_int {
        // SAFETY: By the safety requirements.
        let this = unsafe { Self::from_raw(raw) };
        let sink = this.page_sink.load(Ordering::Relaxed);
        // SAFETY: `to_pages` has stored its parameter, and waits; it runs once at a time for an MR.
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

    /// The address that the MR begins at, for who uses the key. For fast registration, after
    /// [`SgList::to_pages`].
    #[inline]
    pub fn iova(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).iova).read_volatile() }
    }

    /// The length in bytes, after [`SgList::to_pages`].
    #[inline]
    pub fn length(&self) -> u64 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).length).read_volatile() }
    }

    /// The size of the pages that the client maps, in bytes; a power of two. For `map_mr_sg`.
    #[inline]
    pub fn page_size(&self) -> u32 {
        self.view().page_size()
    }
}

/// What `reg_user_mr` registers.
#[derive(Clone, Copy, Debug)]
pub struct UserMr {
    /// The first address, in the caller's address space.
    pub start: u64,
    /// The length in bytes.
    pub length: u64,
    /// The address that users of the keys give for the first byte.
    pub iova: u64,
    /// What may be done.
    pub access: Access,
}

/// What `rereg_user_mr` changes; what is `None` stays.
pub struct Rereg<'a, P: ProviderData> {
    /// Start, length and address for users of the keys.
    pub translation: Option<(u64, u64, u64)>,
    /// What may be done.
    pub access: Option<Access>,
    /// The PD. The core moves the MR's own reference.
    pub pd: Option<&'a Pd<P>>,
}

/// A scatter list that a client maps for fast registration.
///
/// # Invariants
///
/// The list has `nents` mapped entries, `offset` is null or valid.
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
    /// `list` must have `nents` entries that are mapped for the device; `offset` must be null or
    /// valid; both while this lives.
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

    /// How many entries the list has.
    #[inline]
    pub fn len(&self) -> usize {
        usize::try_from(self.nents).unwrap_or(0)
    }

    /// Whether the list has no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cuts the list into pages of the MR's page size, gives the address of each to `sink`, and
    /// sets the MR's address and length. Returns how many entries are mapped whole.
    ///
    /// The addresses are what [`VirtDma`] takes. When `sink` fails, mapping ends before that page.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an offset that is not in the list; `EBUSY` where another thread maps the MR; the error of `sink` for the
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
        // SAFETY: By the type invariants; the callback finds the sink where it was just put.
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

/// The right to access the kernel's memory by address.
///
/// A device that does DMA in software has no DMA addresses: for it, the addresses in the work
/// requests, scatter lists and DMA MRs of clients in the kernel are those of the kernel itself
/// (`ib_virt_dma_to_ptr`). The driver gets this right where such addresses come from, and it is
/// the clients that answer for them, as with any driver: the right is not to be used for an
/// address that came from user space or, without a registration, from the wire.
#[derive(Clone, Copy, Debug)]
pub struct VirtDma(());

impl VirtDma {
    /// The right to access the kernel's memory.
    ///
    /// # Safety
    ///
    /// It may only be handed to a driver together with addresses that a client in the kernel
    /// answers for.
    #[inline]
    pub(crate) const unsafe fn new() -> Self {
        Self(())
    }

    /// The right of a KUnit test, for memory of its own.
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

    /// Checks that `len` bytes at `addr` are in the kernel's half of the address space, or in that of its own which it
    /// has in User Mode Linux.
    #[inline]
    fn check(addr: u64, len: usize) -> Result<*mut u8> {
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
    /// `EFAULT` for what is not in the kernel's half of the address space, `EINVAL` if there is no room.
    #[inline]
    pub fn read(self, addr: u64, len: usize, to: &mut Room<'_>) -> Result {
        let from = Self::check(addr, len)?;
        // SAFETY: A client in the kernel answers for the address; the room is ours, and all bytes are copied.
        unsafe { to.write_with(len, |to| ptr::copy_nonoverlapping(from, to, len)) }
    }

    /// Copies to the kernel's memory.
    ///
    /// # Errors
    ///
    /// `EFAULT` as for [`Self::read`].
    #[inline]
    pub fn write(self, addr: u64, from: &[u8]) -> Result {
        let to = Self::check(addr, from.len())?;
        // SAFETY: A client in the kernel answers for the address; `from` is ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
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
        // SAFETY: A client in the kernel answers for the address.
        Ok(unsafe { VirtAtomic::new(at) })
    }
}

/// Eight bytes of memory that others access at the same time.
pub struct VirtAtomic<'a>(&'a AtomicU64);

impl<'a> VirtAtomic<'a> {
    /// The bytes at `at`.
    ///
    /// # Safety
    ///
    /// `at` must be aligned and stay valid during `'a`.
    #[inline]
    pub(crate) unsafe fn new(at: *mut u64) -> Self {
        // SAFETY: By the safety requirements; others access the bytes with atomic operations, or
        // accept what they find.
        Self(unsafe { AtomicU64::from_ptr(at) })
    }

    /// The bytes as an atomic number of this processor.
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

    /// What kind of MW.
    #[inline]
    pub fn mw_type(&self) -> Result<MwType> {
        // SAFETY: By the type invariants; the core sets the field before it creates the MW.
        MwType::try_from(unsafe { (*self.as_raw()).type_ })
    }

    /// The key.
    #[inline]
    pub fn rkey(&self) -> u32 {
        // SAFETY: By the type invariants.
        unsafe { (&raw const (*self.as_raw()).rkey).read_volatile() }
    }

    /// Gives the MW its key: when it is created, and when it is bound.
    #[inline]
    pub fn set_rkey(&self, rkey: u32) {
        // SAFETY: By the type invariants; C code writes the field without a lock as well.
        unsafe { (&raw mut (*self.as_raw()).rkey).write_volatile(rkey) };
    }
}
