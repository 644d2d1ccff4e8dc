// SPDX-License-Identifier: GPL-2.0

//! Memory regions, the pools of them in a queue pair, and scatter lists mapped for DMA: `struct ib_mr`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr::NonNull};

use kernel::{
    error::to_result,
    ffi::{c_int, c_uint},
    prelude::*,
    sync::rcu,
};
use kernel_ext::entry::FromC;
use rdma_bindings::{self as bindings, ib_mr, ib_sge, ib_sig_attrs, list_head, scatterlist};

use super::{
    list,
    object::{constants, counted, links, tracked, Owned, ParentCounts},
    restrack::{Unlisted, UnlistedEntry},
    uobject::ObjectLink,
    Device, Dm, Dmah, Mr, Pd, Qp,
};

tracked!(Mr);
counted!(Dm);
counted!(Dmah);

impl Mr {
    links! {
        /// The device.
        device: Device = device;
    }
    constants! {
        /// `enum ib_mr_type`.
        kind: u32 = type_;
    }

    /// The protection domain.
    ///
    /// # Safety
    ///
    /// The region's user object is locked as long as the result is used, so that no `rereg_user_mr` moves the region to another
    /// domain.
    #[inline]
    pub unsafe fn pd(&self) -> &Pd {
        // SAFETY: By the safety requirements the region stays in the domain, which counts it.
        unsafe { &*(&raw const (*self.as_raw()).pd).read_volatile().cast() }
    }

    /// Whether the region is in this protection domain at the moment of the call.
    #[inline]
    pub fn is_in(&self, pd: &Pd) -> bool {
        // SAFETY: Any value is valid; a concurrent writer uses a single store.
        let own = unsafe { (&raw const (*self.as_raw()).pd).read_volatile() };
        own == pd.as_raw()
    }

    /// The restrack number of the region's protection domain. Concurrently, `rereg_user_mr` may move the region to another
    /// domain, and the former one may be destroyed.
    pub fn pd_id(&self) -> u32 {
        let _inside = rcu::read_lock();
        // SAFETY: The domain is valid while it counts the region. After that it may be destroyed, but by `DriverObject::RCU` its
        // memory is freed after the end of this RCU section, with the number intact.
        unsafe {
            let pd = (&raw const (*self.as_raw()).pd).read_volatile();
            (&raw const (*pd).res.id).read_volatile()
        }
    }

    /// The local key. `rereg_user_mr` may change it.
    #[inline]
    pub fn lkey(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).lkey).read_volatile() }
    }

    /// The remote key. `rereg_user_mr` may change it.
    #[inline]
    pub fn rkey(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).rkey).read_volatile() }
    }

    /// The page size of the mapping in bytes.
    #[inline]
    pub fn page_size(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).page_size).read_volatile() }
    }

    /// Sets the page size of the mapping in bytes. A concurrent reader gets the old one or the new one.
    #[inline]
    pub fn set_page_size(&self, page_size: u32) {
        // SAFETY: Any value is valid, and it is written whole.
        unsafe { (&raw mut (*self.as_raw()).page_size).write_volatile(page_size) };
    }

    /// Sets the I/O virtual address and the length in bytes, one after the other.
    #[inline]
    pub fn set_range(&self, iova: u64, length: u64) {
        // SAFETY: Any values are valid, and a single store writes each.
        unsafe {
            (&raw mut (*self.as_raw()).iova).write_volatile(iova);
            (&raw mut (*self.as_raw()).length).write_volatile(length);
        }
    }

    /// The I/O virtual address and the length in bytes. While they are being set, one may be new and the other old.
    #[inline]
    pub fn range(&self) -> (u64, u64) {
        // SAFETY: Any values are valid, and a single store writes each.
        unsafe {
            let raw = self.as_raw();
            let iova = (&raw const (*raw).iova).read_volatile();
            (iova, (&raw const (*raw).length).read_volatile())
        }
    }
}

/// A region that a driver has just created.
///
/// # Invariants
///
/// The driver has created the region in the domain, and only this value refers to it. Its resource tracking entry is begun.
pub struct NewMr<'a> {
    mr: NonNull<ib_mr>,
    pd: &'a Pd,
}

impl Unlisted for NewMr<'_> {
    #[inline]
    fn unlisted(&mut self) -> UnlistedEntry<'_> {
        // SAFETY: By the type invariants the entry is begun, and only `self`, which is borrowed mutably, refers to it.
        unsafe { UnlistedEntry::from_c(&raw mut (*self.mr.as_ptr()).res) }
    }
}

impl<'a> NewMr<'a> {
    /// Takes over the result of a driver's method.
    ///
    /// # Errors
    ///
    /// The errno in the pointer.
    ///
    /// # Safety
    ///
    /// `mr` is an errno (`ERR_PTR`), or a region that a driver has just created in the domain.
    pub(crate) unsafe fn from_driver(pd: &'a Pd, mr: *mut ib_mr) -> Result<Self> {
        let mr = NonNull::new(kernel::error::from_err_ptr(mr)?).ok_or(EINVAL)?;
        // SAFETY: By the safety requirements the region is new, and nobody knows its entry.
        unsafe {
            bindings::restrack_begin(&raw mut (*mr.as_ptr()).res);
            (*mr.as_ptr()).res.type_ = bindings::RDMA_RESTRACK_MR;
        }
        // INVARIANT: By the safety requirements.
        Ok(Self { mr, pd })
    }

    /// Fills in the core's part of the region, and counts it as a user of its domain.
    pub fn into_owned(self, kind: u32) -> Owned<Mr> {
        self.pd.uses().inc();
        self.fill(kind)
    }

    /// Fills in the core's part of a region of the domain itself, which is not counted as its user.
    pub fn into_internal(self, kind: u32) -> InternalMr {
        InternalMr(self.fill(kind))
    }

    fn fill(self, kind: u32) -> Owned<Mr> {
        // SAFETY: By the type invariants the region is valid, and only this thread uses it.
        unsafe {
            let raw = self.mr.as_ptr();
            (*raw).device = self.pd.device().as_raw();
            (*raw).pd = self.pd.as_raw();
            (*raw).type_ = kind;
            (*raw).dm = core::ptr::null_mut();
            (*raw).sig_attrs = core::ptr::null_mut();
            (*raw).need_inval = false;
            *(&raw mut (*raw).__bindgen_anon_1).cast() =
                core::ptr::null_mut::<bindings::ib_uobject>();
            Owned::from_raw(self.mr)
        }
    }

    /// As [`Self::into_owned`], for user memory; the driver has filled in the keys.
    pub fn into_user(self, iova: u64, length: u64) -> Owned<Mr> {
        self.pd.uses().inc();
        // SAFETY: By the type invariants the region is valid, and only this thread uses it.
        unsafe {
            let raw = self.mr.as_ptr();
            (*raw).device = self.pd.device().as_raw();
            (*raw).pd = self.pd.as_raw();
            (*raw).type_ = bindings::IB_MR_TYPE_USER;
            (*raw).dm = core::ptr::null_mut();
            (*raw).iova = iova;
            (*raw).length = length;
            Owned::from_raw(self.mr)
        }
    }

    /// As [`Self::into_owned`], for a region of the user object `object`; the driver has filled in its address and length.
    pub fn into_object(self, kind: u32, object: ObjectLink<'_>) -> Owned<Mr> {
        let mr = self.into_owned(kind);
        // SAFETY: The region is new, and only this thread uses it. User regions are in no pool, so that the member of the union
        // is `uobject`.
        unsafe { *(&raw mut (*mr.as_raw()).__bindgen_anon_1).cast() = object.as_raw() };
        mr
    }

    /// As [`Self::into_owned`], for an integrity region.
    pub fn into_integrity(self, attrs: SigAttrs) -> Owned<Mr> {
        let mr = self.into_owned(bindings::IB_MR_TYPE_INTEGRITY);
        // SAFETY: The region is new, and only this thread uses it. It owns the attributes from now on.
        unsafe { (*mr.as_raw()).sig_attrs = KBox::into_raw(attrs.0) };
        mr
    }
}

/// A region of a protection domain itself, which is not counted as its user.
pub struct InternalMr(pub(super) Owned<Mr>);

impl core::ops::Deref for InternalMr {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        &self.0
    }
}

impl Owned<Mr> {
    /// The counted parents of the region.
    pub(super) fn parent_counts(&self) -> ParentCounts<3> {
        let (null, raw) = (core::ptr::null_mut(), self.as_raw());
        // SAFETY: Each parent counts the region since it was created.
        unsafe {
            let dm = (*raw).dm;
            let dmah = (*raw).dmah;
            ParentCounts::new([
                &raw mut (*(*raw).pd).usecnt,
                if dm.is_null() {
                    null
                } else {
                    &raw mut (*dm).usecnt
                },
                if dmah.is_null() {
                    null
                } else {
                    &raw mut (*dmah).usecnt
                },
            ])
        }
    }
}

/// The signature attributes of an integrity region: `struct ib_sig_attrs`.
pub struct SigAttrs(KBox<ib_sig_attrs>);

impl SigAttrs {
    /// Allocates zeroed attributes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new(pin_init::zeroed(), GFP_KERNEL)?))
    }

    /// The attributes of a region, or null. They are freed after the driver has destroyed the region.
    pub(super) fn pointer(mr: &Owned<Mr>) -> *mut ib_sig_attrs {
        // SAFETY: The member is constant after the region is made.
        unsafe { (*mr.as_raw()).sig_attrs }
    }

    /// Takes over the attributes of a destroyed region.
    ///
    /// # Safety
    ///
    /// `attrs` is from [`Self::pointer`] for that region.
    pub(super) unsafe fn of_gone(attrs: *mut ib_sig_attrs) -> Option<Self> {
        // SAFETY: By the safety requirements; `into_integrity` has made the pointer from a `KBox`.
        (!attrs.is_null()).then(|| Self(unsafe { KBox::from_raw(attrs) }))
    }
}

/// A pool of a queue pair: its list of free regions, under the queue pair's `mr_lock`.
///
/// # Invariants
///
/// The entries of `list` are kernel regions that the pool owns, and the list is accessed under the queue pair's `mr_lock` alone.
#[derive(Clone, Copy)]
pub struct MrPool<'a> {
    qp: &'a Qp,
    list: *mut list_head,
}

/// The list of a pool, which C passes together with an [`MrPoolQp`].
pub struct MrListArg<'a>(*mut list_head, PhantomData<&'a list_head>);

/// The queue pair of a pool, which C passes together with an [`MrListArg`]. A value does not outlive the call, and no exported
/// function takes two of them.
pub struct MrPoolQp<'a>(&'a Qp);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for MrListArg<'_> {
    type Raw = *mut list_head;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MrPoolQp<'_> {
    type Raw = *mut bindings::ib_qp;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the queue pair is valid; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

impl<'a> MrPoolQp<'a> {
    /// Joins the two arguments.
    pub fn pool(self, list: MrListArg<'a>) -> MrPool<'a> {
        // INVARIANT: Both are from the same call, and by the header the list is a pool of the queue pair.
        MrPool {
            qp: self.0,
            list: list.0,
        }
    }
}

/// A region from a pool (`ib_mr_pool_get()`).
///
/// # Invariants
///
/// The region is in no list, and only the holder of this value changes it. It is valid as long as its queue pair.
pub struct PooledMr<'a>(&'a Mr);

impl PooledMr<'_> {
    /// Hands the region over to C, or to a context of the RW API.
    #[inline]
    pub fn into_raw(self) -> *mut ib_mr {
        self.0.as_raw()
    }
}

impl core::ops::Deref for PooledMr<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for PooledMr<'_> {
    type Raw = *mut ib_mr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the region is valid; a view is a transparent wrapper.
        // INVARIANT: By the header C passes a region from `ib_mr_pool_get()`.
        Self(unsafe { &*raw.cast() })
    }
}

impl Qp {
    fn lock_mrs(&self) -> list::Locked {
        // SAFETY: The lock is initialised with the queue pair.
        unsafe { list::Locked::take(&raw mut (*self.as_raw()).mr_lock) }
    }

    /// The pool `rdma_mrs`: regions for the RW API.
    pub fn rdma_mrs(&self) -> MrPool<'_> {
        // SAFETY: The member is initialised with the queue pair.
        let list = unsafe { &raw mut (*self.as_raw()).rdma_mrs };
        // INVARIANT: The list is a pool of the queue pair.
        MrPool { qp: self, list }
    }

    /// The pool `sig_mrs`: integrity regions for the RW API.
    pub fn sig_mrs(&self) -> MrPool<'_> {
        // SAFETY: The member is initialised with the queue pair.
        let list = unsafe { &raw mut (*self.as_raw()).sig_mrs };
        // INVARIANT: The list is a pool of the queue pair.
        MrPool { qp: self, list }
    }
}

impl<'a> MrPool<'a> {
    /// The queue pair.
    pub fn qp(self) -> &'a Qp {
        self.qp
    }

    /// Appends a region to the pool, and gives its ownership to the pool.
    pub fn add(self, mr: Owned<Mr>) {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held, and an owned region is in no list.
        unsafe { list::append(self.list, entry_of(mr.into_raw())) };
    }

    /// Removes a region from the pool, and takes its ownership. `None` for an empty pool.
    pub fn remove(self) -> Option<Owned<Mr>> {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; by the type invariants the pool owns the region.
        unsafe {
            let entry = list::first(self.list)?;
            list::remove(entry);
            NonNull::new(mr_of(entry)).map(|mr| Owned::from_raw(mr))
        }
    }

    /// Takes a region from the pool; `None` if it is empty. Any context.
    pub fn get(self) -> Option<PooledMr<'a>> {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; the region is valid as long as the queue pair, by the invariants of `PooledMr`.
        unsafe {
            let entry = list::first(self.list)?;
            list::remove(entry);
            self.count_used(1);
            // INVARIANT: The region was just removed from the list.
            Some(PooledMr(&*mr_of(entry).cast()))
        }
    }

    /// Returns a region to the pool, to the front of the list. Any context.
    pub fn put(self, mr: PooledMr<'_>) {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; by the invariants of `PooledMr` the region is in no list.
        unsafe {
            list::insert_after(self.list, entry_of(mr.into_raw()));
            self.count_used(-1);
        }
    }

    /// Adds `more` to `mrs_used`, the number of regions in use.
    ///
    /// # Safety
    ///
    /// The queue pair's `mr_lock` is held.
    unsafe fn count_used(self, more: c_int) {
        let used = self.qp.mrs_used().wrapping_add(more);
        // SAFETY: By the safety requirements there is no other writer; readers use a single load.
        unsafe { (&raw mut (*self.qp.as_raw()).mrs_used).write_volatile(used) };
    }
}

/// The list entry of a region.
///
/// # Safety
///
/// `mr` is a valid kernel region.
unsafe fn entry_of(mr: *mut ib_mr) -> *mut list_head {
    // SAFETY: By the safety requirements.
    unsafe { (&raw mut (*mr).__bindgen_anon_1).cast() }
}

/// The region of a list entry.
///
/// # Safety
///
/// `entry` is the list entry of a valid region.
unsafe fn mr_of(entry: *mut list_head) -> *mut ib_mr {
    // SAFETY: By the safety requirements.
    unsafe {
        kernel::container_of!(
            entry.cast::<bindings::ib_mr__bindgen_ty_1>(),
            ib_mr,
            __bindgen_anon_1
        )
    }
}

/// A DMA-mapped scatter list as an argument of C. Its length is another argument.
///
/// # Invariants
///
/// `first` is null, or the first entry of a scatter list whose last entry has the end mark.
#[derive(Clone, Copy)]
pub struct DmaList<'a> {
    first: *mut scatterlist,
    _list: PhantomData<&'a scatterlist>,
}

// SAFETY: `Raw` is the type in the header; the pointer is null where the length is 0.
unsafe impl FromC for DmaList<'_> {
    type Raw = *mut scatterlist;

    #[inline]
    unsafe fn from_c(first: Self::Raw) -> Self {
        Self {
            first,
            _list: PhantomData,
        }
    }
}

/// An entry of a DMA-mapped scatter list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSpan {
    /// The DMA address.
    pub address: u64,
    /// The length in bytes.
    pub length: u32,
}

impl<'a> DmaList<'a> {
    /// The argument of a driver's method.
    #[inline]
    pub fn as_raw(self) -> *mut scatterlist {
        self.first
    }

    /// The first `count` entries; fewer if the list ends earlier.
    pub fn spans(self, count: usize) -> DmaSpans<'a> {
        DmaSpans {
            next: NonNull::new(self.first),
            left: count,
            _list: PhantomData,
        }
    }
}

/// An iterator over the entries of a [`DmaList`].
///
/// # Invariants
///
/// `next` is an entry of the list if `left` is not 0.
pub struct DmaSpans<'a> {
    next: Option<NonNull<scatterlist>>,
    left: usize,
    _list: PhantomData<&'a scatterlist>,
}

impl Iterator for DmaSpans<'_> {
    type Item = DmaSpan;

    #[inline]
    fn next(&mut self) -> Option<DmaSpan> {
        self.left = self.left.checked_sub(1)?;
        let sg = self.next?;
        // SAFETY: By the type invariants `next` is an entry of the list.
        unsafe {
            self.next = NonNull::new(bindings::sg_next(sg.as_ptr()));
            Some(DmaSpan {
                address: bindings::sg_dma_address(sg.as_ptr()),
                length: bindings::sg_dma_len(sg.as_ptr()),
            })
        }
    }
}

/// The offset in bytes into the first entry at which a mapping begins; after the mapping, that at which it ended. A null pointer
/// stands for 0.
pub struct SgOffset<'a>(Option<&'a mut c_uint>);

impl<'a> SgOffset<'a> {
    /// The offset 0, without a place for the end.
    pub const NONE: Self = Self(None);

    /// The offset in `offset`, which is updated.
    pub fn at(offset: &'a mut c_uint) -> Self {
        Self(Some(offset))
    }

    /// The offset at which the mapping begins, in bytes.
    #[inline]
    pub fn get(&self) -> c_uint {
        self.0.as_deref().copied().unwrap_or(0)
    }

    /// Sets the offset at which the mapping has ended.
    #[inline]
    pub fn set(&mut self, offset: c_uint) {
        if let Some(place) = &mut self.0 {
            **place = offset;
        }
    }

    /// The argument of a driver's method.
    #[inline]
    pub(crate) fn pointer(&mut self) -> *mut c_uint {
        self.0
            .as_deref_mut()
            .map_or(core::ptr::null_mut(), core::ptr::from_mut)
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for SgOffset<'_> {
    type Raw = *mut c_uint;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is null or valid for the call.
        Self(unsafe { raw.as_mut() })
    }
}

/// Ranges of memory, which C passes together with a [`RangeCount`]. A value does not outlive the call, and no exported function
/// takes two of them.
pub struct Ranges<'a>(*mut ib_sge, PhantomData<&'a ib_sge>);

/// The number of [`Ranges`].
#[derive(Clone, Copy)]
pub struct RangeCount<'a>(u32, PhantomData<&'a ib_sge>);

impl<'a> Ranges<'a> {
    /// Joins the arguments for a driver's method.
    #[inline]
    pub(crate) fn for_driver(self, count: RangeCount<'a>) -> (*mut ib_sge, u32) {
        (self.0, count.0)
    }
}

impl RangeCount<'_> {
    /// Whether the count is 0.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

// SAFETY: `Raw` is the `u32` of the header.
unsafe impl FromC for RangeCount<'_> {
    type Raw = u32;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: `Raw` is the type in the header; the pointer is null where there are none.
unsafe impl FromC for Ranges<'_> {
    type Raw = *mut ib_sge;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

/// A region that its driver is mapping, which C passes together with a [`SetPage`]. A value does not outlive the call, and no
/// exported function takes two of them.
pub struct MappingMr<'a>(&'a Mr);

impl core::ops::Deref for MappingMr<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for MappingMr<'_> {
    type Raw = *mut ib_mr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the region is valid; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

/// The function of a driver that stores the page addresses of a mapping, one per call.
pub struct SetPage<'a>(
    unsafe extern "C" fn(*mut ib_mr, u64) -> c_int,
    PhantomData<&'a Mr>,
);

impl<'a> SetPage<'a> {
    /// Passes the DMA address of a page to the driver.
    ///
    /// # Errors
    ///
    /// Those of the driver, whose page table may be full.
    #[inline]
    pub fn call(&self, mr: &MappingMr<'a>, page: u64) -> Result {
        // SAFETY: The driver has passed the function for this region in the same call, and is mapping the region.
        let ret = unsafe { (self.0)(mr.as_raw(), page) };
        to_result(ret.min(0))
    }
}

// SAFETY: `Raw` is the function pointer in the header, which is not null.
unsafe impl FromC for SetPage<'_> {
    type Raw = Option<unsafe extern "C" fn(*mut ib_mr, u64) -> c_int>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the pointer is not null.
        Self(unsafe { raw.unwrap_unchecked() }, PhantomData)
    }
}
