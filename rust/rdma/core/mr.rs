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
    Device, Dm, Dmah, Mr, Pd, Qp, Uobject,
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
    /// The region is locked as long as the domain is used: nobody registers it anew meanwhile, in another domain.
    #[inline]
    pub unsafe fn pd(&self) -> &Pd {
        // SAFETY: The domain stays as long as the region is in it.
        unsafe { &*(&raw const (*self.as_raw()).pd).read_volatile().cast() }
    }

    /// Whether it is in a protection domain, at this moment.
    #[inline]
    pub fn is_in(&self, pd: &Pd) -> bool {
        // SAFETY: Any value is valid, and others write it whole.
        let own = unsafe { (&raw const (*self.as_raw()).pd).read_volatile() };
        own == pd.as_raw()
    }

    /// The number of its protection domain in resource tracking. User space may register the region anew meanwhile, in another
    /// domain, and deallocate this one.
    pub fn pd_id(&self) -> u32 {
        let _inside = rcu::read_lock();
        // SAFETY: The region counts its domain. When it does not any more, and the domain is destroyed, the memory stays for the RCU
        // readers, by `DriverObject::RCU`, and the number in it.
        unsafe {
            let pd = (&raw const (*self.as_raw()).pd).read_volatile();
            (&raw const (*pd).res.id).read_volatile()
        }
    }

    /// The key for local use. Registering it anew changes it.
    #[inline]
    pub fn lkey(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).lkey).read_volatile() }
    }

    /// The key for remote use. Registering it anew changes it.
    #[inline]
    pub fn rkey(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).rkey).read_volatile() }
    }

    /// The size of the pages that memory is mapped in.
    #[inline]
    pub fn page_size(&self) -> u32 {
        // SAFETY: Any value is valid.
        unsafe { (&raw const (*self.as_raw()).page_size).read_volatile() }
    }

    /// Says of which size the pages are that memory is mapped in. For who maps, alone.
    #[inline]
    pub fn set_page_size(&self, page_size: u32) {
        // SAFETY: Any value is valid, and it is written whole.
        unsafe { (&raw mut (*self.as_raw()).page_size).write_volatile(page_size) };
    }

    /// Says which addresses the region has. For who maps, alone.
    #[inline]
    pub fn set_range(&self, iova: u64, length: u64) {
        // SAFETY: Any values are valid, and each is written whole.
        unsafe {
            (&raw mut (*self.as_raw()).iova).write_volatile(iova);
            (&raw mut (*self.as_raw()).length).write_volatile(length);
        }
    }

    /// The address and the length of the region. While it is being mapped, one of them may be new and the other one not.
    #[inline]
    pub fn range(&self) -> (u64, u64) {
        // SAFETY: Any values are valid, and each is written whole.
        unsafe {
            let raw = self.as_raw();
            let iova = (&raw const (*raw).iova).read_volatile();
            (iova, (&raw const (*raw).length).read_volatile())
        }
    }
}

/// A region as a driver has just made it.
///
/// # Invariants
///
/// The driver has made it in the domain, and nobody else has it.
pub struct NewMr<'a> {
    mr: NonNull<ib_mr>,
    pd: &'a Pd,
}

impl<'a> NewMr<'a> {
    /// Takes over what a driver has made.
    ///
    /// # Errors
    ///
    /// The errno in the pointer.
    ///
    /// # Safety
    ///
    /// `mr` is an errno, or a region that a driver has just made in the domain.
    pub(crate) unsafe fn from_driver(pd: &'a Pd, mr: *mut ib_mr) -> Result<Self> {
        let mr = NonNull::new(kernel::error::from_err_ptr(mr)?).ok_or(EINVAL)?;
        // INVARIANT: By the safety requirements.
        Ok(Self { mr, pd })
    }

    /// Fills in what the core and clients know of the region. Its domain counts it.
    pub fn into_owned(self, kind: u32) -> Owned<Mr> {
        self.pd.uses().inc();
        self.fill(kind)
    }

    /// Makes it a region that its domain has for itself, and does not count.
    pub fn into_internal(self, kind: u32) -> InternalMr {
        InternalMr(self.fill(kind))
    }

    fn fill(self, kind: u32) -> Owned<Mr> {
        // SAFETY: By the type invariants.
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

    /// As [`Self::into_owned`], for user memory; the driver has filled in what user space knows.
    pub fn into_user(self, iova: u64, length: u64) -> Owned<Mr> {
        self.pd.uses().inc();
        // SAFETY: By the type invariants.
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

    /// As [`Self::into_owned`], for a region of user space, of which the driver has filled in addresses and length.
    pub fn into_object(self, kind: u32, object: &Uobject) -> Owned<Mr> {
        let mr = self.into_owned(kind);
        // SAFETY: The region is being made; regions of user space are in no pool.
        unsafe { *(&raw mut (*mr.as_raw()).__bindgen_anon_1).cast() = object.as_raw() };
        mr
    }

    /// As [`Self::into_owned`], for an integrity region.
    pub fn into_integrity(self, attrs: SigAttrs) -> Owned<Mr> {
        let mr = self.into_owned(bindings::IB_MR_TYPE_INTEGRITY);
        // SAFETY: The region is being made; it owns the attributes from now on.
        unsafe { (*mr.as_raw()).sig_attrs = KBox::into_raw(attrs.0) };
        mr
    }
}

/// A region that its protection domain has for itself, and does not count as a user.
pub struct InternalMr(pub(super) Owned<Mr>);

impl core::ops::Deref for InternalMr {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        &self.0
    }
}

impl Owned<Mr> {
    /// What the region uses, of those that are counted.
    pub(super) fn parent_counts(&self) -> ParentCounts<3> {
        let (null, raw) = (core::ptr::null_mut(), self.as_raw());
        // SAFETY: The region is counted by all from its making on.
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

/// How the integrity of data is checked: memory for it, of an integrity region.
pub struct SigAttrs(KBox<ib_sig_attrs>);

impl SigAttrs {
    /// Attributes that say nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new(pin_init::zeroed(), GFP_KERNEL)?))
    }

    /// The attributes of a region, if it has any, to be freed when the driver has let go of the region.
    pub(super) fn pointer(mr: &Owned<Mr>) -> *mut ib_sig_attrs {
        // SAFETY: The member is set when the region is made.
        unsafe { (*mr.as_raw()).sig_attrs }
    }

    /// Takes over the attributes of a region that is gone.
    ///
    /// # Safety
    ///
    /// `attrs` is from [`Self::pointer`] for that region.
    pub(super) unsafe fn of_gone(attrs: *mut ib_sig_attrs) -> Option<Self> {
        // SAFETY: By the safety requirements; `into_integrity` has put them there.
        (!attrs.is_null()).then(|| Self(unsafe { KBox::from_raw(attrs) }))
    }
}

/// A pool of a queue pair: regions that wait to be used. The lock is the queue pair's.
///
/// # Invariants
///
/// `list` has regions of clients in the kernel, which are the pool's, and is used under the queue pair's lock alone.
#[derive(Clone, Copy)]
pub struct MrPool<'a> {
    qp: &'a Qp,
    list: *mut list_head,
}

/// The list of a pool, as C passes it with the queue pair.
pub struct MrListArg<'a>(*mut list_head, PhantomData<&'a list_head>);

/// The queue pair of a pool, as C passes it with the list. A value lives no longer than the call, and no function has two.
pub struct MrPoolQp<'a>(&'a Qp);

// SAFETY: The type is the same on both sides.
unsafe impl FromC for MrListArg<'_> {
    type Raw = *mut list_head;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: As for a reference.
unsafe impl FromC for MrPoolQp<'_> {
    type Raw = *mut bindings::ib_qp;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the queue pair is there; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

impl<'a> MrPoolQp<'a> {
    /// The pool that the two arguments name.
    pub fn pool(self, list: MrListArg<'a>) -> MrPool<'a> {
        // INVARIANT: Both are of the same call, and by the header the list is a pool of the queue pair.
        MrPool {
            qp: self.0,
            list: list.0,
        }
    }
}

/// A region that a pool has lent.
///
/// # Invariants
///
/// The region is in no list, and the borrower alone changes it. It stays as long as its queue pair.
pub struct LentMr<'a>(&'a Mr);

impl LentMr<'_> {
    /// Hands the region over: to C, or to a context of the RW API.
    #[inline]
    pub fn into_raw(self) -> *mut ib_mr {
        self.0.as_raw()
    }
}

impl core::ops::Deref for LentMr<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: As for a reference.
unsafe impl FromC for LentMr<'_> {
    type Raw = *mut ib_mr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the region is there; a view is a transparent wrapper.
        // INVARIANT: C passes a region that it was lent, by the pool that it passes along.
        Self(unsafe { &*raw.cast() })
    }
}

impl Qp {
    fn lock_mrs(&self) -> list::Locked {
        // SAFETY: The lock was set up with the queue pair.
        unsafe { list::Locked::take(&raw mut (*self.as_raw()).mr_lock) }
    }

    /// The regions for the RW API.
    pub fn rdma_mrs(&self) -> MrPool<'_> {
        // SAFETY: The member is set up with the queue pair.
        let list = unsafe { &raw mut (*self.as_raw()).rdma_mrs };
        // INVARIANT: It is a pool of the queue pair.
        MrPool { qp: self, list }
    }

    /// The regions for the RW API that check the integrity of data.
    pub fn sig_mrs(&self) -> MrPool<'_> {
        // SAFETY: The member is set up with the queue pair.
        let list = unsafe { &raw mut (*self.as_raw()).sig_mrs };
        // INVARIANT: It is a pool of the queue pair.
        MrPool { qp: self, list }
    }
}

impl<'a> MrPool<'a> {
    /// The queue pair.
    pub fn qp(self) -> &'a Qp {
        self.qp
    }

    /// Adds a region to the pool, at the end. Its owner is the pool from now on.
    pub fn add(self, mr: Owned<Mr>) {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held, and an owned region is in no list.
        unsafe { list::append(self.list, entry_of(mr.into_raw())) };
    }

    /// Takes a region out of the pool, for good.
    pub fn remove(self) -> Option<Owned<Mr>> {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; by the type invariants the pool was the region's owner.
        unsafe {
            let entry = list::first(self.list)?;
            list::remove(entry);
            NonNull::new(mr_of(entry)).map(|mr| Owned::from_raw(mr))
        }
    }

    /// Lends a region of the pool. Any context.
    pub fn lend(self) -> Option<LentMr<'a>> {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; a lent region stays as long as the queue pair.
        unsafe {
            let entry = list::first(self.list)?;
            list::remove(entry);
            self.count_lent(1);
            // INVARIANT: It is in no list now.
            Some(LentMr(&*mr_of(entry).cast()))
        }
    }

    /// Takes a region back that it has lent, to the front. Any context.
    pub fn take_back(self, mr: LentMr<'_>) {
        let _locked = self.qp.lock_mrs();
        // SAFETY: The lock is held; by its invariants the region is in no list.
        unsafe {
            list::insert_after(self.list, entry_of(mr.into_raw()));
            self.count_lent(-1);
        }
    }

    /// Counts lent regions.
    ///
    /// # Safety
    ///
    /// The lock is held.
    unsafe fn count_lent(self, more: c_int) {
        let used = self.qp.mrs_used().wrapping_add(more);
        // SAFETY: By the safety requirements nobody else writes it; others read it whole.
        unsafe { (&raw mut (*self.qp.as_raw()).mrs_used).write_volatile(used) };
    }
}

/// The link of a region in a pool.
///
/// # Safety
///
/// `mr` is a region of a client in the kernel.
unsafe fn entry_of(mr: *mut ib_mr) -> *mut list_head {
    // SAFETY: By the safety requirements.
    unsafe { (&raw mut (*mr).__bindgen_anon_1).cast() }
}

/// The region of a link.
///
/// # Safety
///
/// `entry` is the link of a region.
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

/// A list of memory that is mapped for DMA, as C passes it. Its length comes as another argument.
///
/// # Invariants
///
/// `first` is null, or the first piece of a list whose last piece is marked as that.
#[derive(Clone, Copy)]
pub struct DmaList<'a> {
    first: *mut scatterlist,
    _list: PhantomData<&'a scatterlist>,
}

// SAFETY: The type is the same on both sides; null where the length is 0.
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

/// A piece of memory for DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaSpan {
    /// Where it begins.
    pub address: u64,
    /// How many bytes it has.
    pub length: u32,
}

impl<'a> DmaList<'a> {
    /// For drivers.
    #[inline]
    pub fn as_raw(self) -> *mut scatterlist {
        self.first
    }

    /// The first `count` pieces; fewer if the list ends earlier.
    pub fn spans(self, count: usize) -> DmaSpans<'a> {
        DmaSpans {
            next: NonNull::new(self.first),
            left: count,
            _list: PhantomData,
        }
    }
}

/// The pieces of a [`DmaList`].
///
/// # Invariants
///
/// `next` is a piece of the list if there are any `left`.
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
        // SAFETY: By the type invariants.
        unsafe {
            self.next = NonNull::new(bindings::sg_next(sg.as_ptr()));
            Some(DmaSpan {
                address: bindings::sg_dma_address(sg.as_ptr()),
                length: bindings::sg_dma_len(sg.as_ptr()),
            })
        }
    }
}

/// How far into the first piece of a list a mapping begins; where it ended, afterwards. It may be absent.
pub struct SgOffset<'a>(Option<&'a mut c_uint>);

impl<'a> SgOffset<'a> {
    /// A mapping that begins at the first piece.
    pub const NONE: Self = Self(None);

    /// A mapping that begins so far into the first piece.
    pub fn at(offset: &'a mut c_uint) -> Self {
        Self(Some(offset))
    }

    /// Where the mapping begins.
    #[inline]
    pub fn get(&self) -> c_uint {
        self.0.as_deref().copied().unwrap_or(0)
    }

    /// Says where the mapping has ended.
    #[inline]
    pub fn set(&mut self, offset: c_uint) {
        if let Some(place) = &mut self.0 {
            **place = offset;
        }
    }

    /// For drivers.
    #[inline]
    pub(crate) fn pointer(&mut self) -> *mut c_uint {
        self.0
            .as_deref_mut()
            .map_or(core::ptr::null_mut(), core::ptr::from_mut)
    }
}

// SAFETY: A number, or null.
unsafe impl FromC for SgOffset<'_> {
    type Raw = *mut c_uint;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the number is there if the pointer is not null.
        Self(unsafe { raw.as_mut() })
    }
}

/// Ranges of memory, as C passes them with a [`RangeCount`]. A value lives no longer than the call, and no function has two.
pub struct Ranges<'a>(*mut ib_sge, PhantomData<&'a ib_sge>);

/// How many [`Ranges`] there are.
#[derive(Clone, Copy)]
pub struct RangeCount<'a>(u32, PhantomData<&'a ib_sge>);

impl<'a> Ranges<'a> {
    /// For drivers.
    #[inline]
    pub(crate) fn for_driver(self, count: RangeCount<'a>) -> (*mut ib_sge, u32) {
        (self.0, count.0)
    }
}

impl RangeCount<'_> {
    /// Whether there is none.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

// SAFETY: The header has `u32`.
unsafe impl FromC for RangeCount<'_> {
    type Raw = u32;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

// SAFETY: The type is the same on both sides; null where there are none.
unsafe impl FromC for Ranges<'_> {
    type Raw = *mut ib_sge;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

/// A region that its driver maps right now, alone, as C passes it with a [`SetPage`]. A value lives no longer than the call, and
/// no function has two.
pub struct MappingMr<'a>(&'a Mr);

impl core::ops::Deref for MappingMr<'_> {
    type Target = Mr;

    #[inline]
    fn deref(&self) -> &Mr {
        self.0
    }
}

// SAFETY: As for a reference.
unsafe impl FromC for MappingMr<'_> {
    type Raw = *mut ib_mr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the region is there; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

/// The function of a driver that takes the pages of a list, one by one.
pub struct SetPage<'a>(
    unsafe extern "C" fn(*mut ib_mr, u64) -> c_int,
    PhantomData<&'a Mr>,
);

impl<'a> SetPage<'a> {
    /// Hands a page over.
    ///
    /// # Errors
    ///
    /// What the driver answers where it has no room for more.
    #[inline]
    pub fn call(&self, mr: &MappingMr<'a>, page: u64) -> Result {
        // SAFETY: The driver has passed it for this region, in the same call, and maps the region right now.
        let ret = unsafe { (self.0)(mr.as_raw(), page) };
        to_result(ret.min(0))
    }
}

// SAFETY: The header has a pointer to such a function, which is not null.
unsafe impl FromC for SetPage<'_> {
    type Raw = Option<unsafe extern "C" fn(*mut ib_mr, u64) -> c_int>;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements there is one.
        Self(unsafe { raw.unwrap_unchecked() }, PhantomData)
    }
}
