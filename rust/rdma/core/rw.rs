// SPDX-License-Identifier: GPL-2.0

//! Contexts of the RW API: `struct rdma_rw_ctx`, the requests in it, and the memory that they transfer.
//!
//! A context lies in memory of its consumer, and does not move: its requests point to each other. Its stages are
//!
//! | type | stage | next |
//! |---|---|---|
//! | [`RwUninit`] | memory for a context | one of its `set_…` methods |
//! | [`RwReady`] | a context whose requests are not posted | [`RwReady::post`], [`RwReady::chain`] |
//! | [`RwUsed`] | a context whose requests have completed, and which is given up | [`RwUsed::destroy`] |
//!
//! The other arguments that C passes with a context belong to this context. A type for each of them says so: its values do not
//! outlive the call, and no exported function takes two that belong to different contexts.
//!
//! C header: `include/rdma/rw.h`.

mod memory;

use core::{marker::PhantomData, ptr::null_mut};

use kernel::{
    alloc::{allocator::Kmalloc, Allocator},
    error::to_result,
    ffi::c_int,
    prelude::*,
};
use kernel_ext::{
    compat::enumeration::dma_direction,
    entry::{view_of, FromC},
    error::EOPNOTSUPP,
};
use rdma_bindings::{
    self as bindings, dma_data_direction, ib_cqe, ib_rdma_wr, ib_send_wr, ib_sge, ib_sig_attrs,
    rdma_rw_ctx,
};

use memory::unmap_page;
pub use memory::{BvecRange, Bvecs, MappedPages, Mapping, PageList};

use super::{
    mr::{DmaList, DmaSpan, MrPool, PooledMr},
    Device, Qp,
};

type RegCtx = bindings::rdma_rw_ctx__bindgen_ty_1_rdma_rw_reg_ctx;

/// An uninitialised context, with exclusive access.
pub struct RwUninit<'a>(&'a mut rdma_rw_ctx);

/// A context that was set up, and whose requests are not posted.
///
/// # Invariants
///
/// The member of the union is the one that the kind selects, and the context is lent exclusively. It is valid until its requests
/// have completed.
pub struct RwReady<'a>(&'a mut rdma_rw_ctx);

/// A context that is given up, and whose requests are not posted.
///
/// # Invariants
///
/// The member of the union is the one that the kind selects, and only the holder of this value uses the context and its
/// resources.
pub struct RwUsed<'a>(&'a mut rdma_rw_ctx);

macro_rules! context_from_c {
    ($($name:ident)*) => {$(
        // SAFETY: `Raw` is the type in the header.
        unsafe impl FromC for $name<'_> {
            type Raw = *mut rdma_rw_ctx;

            #[inline]
            unsafe fn from_c(raw: Self::Raw) -> Self {
                // SAFETY: By the safety requirements the context is valid, and lent for writing.
                // INVARIANT: By the header the functions that take this argument get a context in this stage.
                Self(unsafe { &mut *raw })
            }
        }
    )*};
}
context_from_c! { RwUninit RwReady RwUsed }

/// The queue pair that C passes with a context: the one that the context is set up for.
pub struct RwQp<'a>(&'a Qp);

impl core::ops::Deref for RwQp<'_> {
    type Target = Qp;

    #[inline]
    fn deref(&self) -> &Qp {
        self.0
    }
}

// SAFETY: `Raw` is the pointer type in the header.
unsafe impl FromC for RwQp<'_> {
    type Raw = *mut bindings::ib_qp;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements the queue pair is valid; a view is a transparent wrapper.
        Self(unsafe { &*raw.cast() })
    }
}

/// A list that C passes with a context that is given up: the one that was mapped for the context, or an empty one.
pub struct RwList<'a>(DmaList<'a>);

// SAFETY: `Raw` is the pointer type in the header, as for `DmaList`.
unsafe impl FromC for RwList<'_> {
    type Raw = *mut bindings::scatterlist;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        // SAFETY: By the safety requirements.
        Self(unsafe { DmaList::from_c(raw) })
    }
}

/// The kind of a context; `None` if the context was never set up.
fn kind_of(ctx: &rdma_rw_ctx) -> Option<RwKind> {
    match ctx.type_ {
        0 => Some(RwKind::Single),
        1 => Some(RwKind::Multi),
        2 => Some(RwKind::Regions),
        3 => Some(RwKind::Integrity),
        4 => Some(RwKind::Iova),
        _ => None,
    }
}

/// The kind of a context: `type` in `struct rdma_rw_ctx`, whose values are private to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RwKind {
    /// One request with one scatter/gather element.
    Single,
    /// Requests with several scatter/gather elements each.
    Multi,
    /// Requests with memory regions.
    Regions,
    /// One request with an integrity region.
    Integrity,
    /// One request for a range of pages that the IOMMU maps contiguously.
    Iova,
}

/// A transfer: the remote memory and the direction.
#[derive(Clone, Copy)]
pub struct Transfer {
    /// The remote address.
    pub remote_addr: u64,
    /// The remote key.
    pub rkey: u32,
    /// `DMA_TO_DEVICE`: RDMA WRITE; `DMA_FROM_DEVICE`: RDMA READ.
    pub direction: dma_data_direction,
}

impl Transfer {
    /// Whether the transfer is an RDMA READ.
    #[inline]
    pub fn is_read(&self) -> bool {
        self.direction != bindings::DMA_TO_DEVICE
    }

    fn opcode(&self) -> bindings::ib_wr_opcode {
        if self.is_read() {
            bindings::IB_WR_RDMA_READ
        } else {
            bindings::IB_WR_RDMA_WRITE
        }
    }

    /// The request at the offset `done`, in bytes, of the transfer.
    fn request(&self, done: u64) -> ib_rdma_wr {
        let mut request: ib_rdma_wr = pin_init::zeroed();
        request.wr.opcode = self.opcode();
        request.remote_addr = self.remote_addr.wrapping_add(done);
        request.rkey = self.rkey;
        request
    }
}

/// Regions of a queue pair's pool that are lent for a transfer; dropping them gives them back.
///
/// # Invariants
///
/// The regions are lent from the pool that `integrity` selects, to `self` alone.
pub struct Regions<'a> {
    qp: &'a RwQp<'a>,
    integrity: bool,
    regions: KVec<RegCtx>,
}

impl<'a> Regions<'a> {
    /// Allocates room for `count` regions from the pool of the RW API, or from that of integrity regions.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(qp: &'a RwQp<'a>, count: u32, integrity: bool) -> Result<Self> {
        // INVARIANT: There are no regions.
        Ok(Self {
            qp,
            integrity,
            regions: KVec::with_capacity(count as usize, GFP_KERNEL)?,
        })
    }

    fn pool(&self) -> MrPool<'a> {
        pool_of(self.qp, self.integrity)
    }

    /// Takes one more region from the pool, calls `f` with it, and keeps it for the transfer.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the pool is empty, `ENOMEM`, and those of `f`.
    pub fn take_region<R>(&mut self, f: impl FnOnce(&mut PooledMr<'_>) -> Result<R>) -> Result<R> {
        self.regions.reserve(1, GFP_KERNEL)?;
        let mut mr = self.pool().get().ok_or(EAGAIN)?;
        let result = f(&mut mr);
        let mut region: RegCtx = pin_init::zeroed();
        // INVARIANT: The region was just taken from the pool.
        region.mr = mr.into_raw();
        // `new` has reserved the capacity.
        self.regions.push(region, GFP_KERNEL)?;
        result
    }

    /// Sets up the requests that register the regions and transfer to or from them, moves all to a context, and returns the
    /// number of requests. `access` are the access flags of the regions; `invalidates` says that an RDMA READ invalidates its
    /// region by itself.
    pub fn into_ctx(
        mut self,
        ctx: &mut RwUninit<'_>,
        transfer: &Transfer,
        access: u32,
        invalidates: bool,
        pages: Option<PageList<'_>>,
    ) -> u32 {
        let mut requests = 0;
        let mut done = 0;
        let mut prev: *mut ib_send_wr = null_mut();
        for region in &mut self.regions {
            // SAFETY: By the type invariants the region is lent to `self`.
            let mut mr = unsafe { PooledMr::from_c(region.mr) };
            let more = set_up_region(region, &mut mr, transfer, done, invalidates);
            requests = u32::wrapping_add(requests, more);
            region.reg_wr.access = access as c_int;
            done = done.wrapping_add(region.sge.length.into());
            let first = first_of(region);
            if !prev.is_null() {
                // SAFETY: `prev` is a request in the preceding element of the array, which does not move.
                unsafe { (*prev).next = first };
            }
            prev = &mut region.wr.wr;
        }
        if self.integrity {
            self.regions.iter_mut().for_each(integrity_request);
        }
        if let (Some(first), Some(pages)) = (self.regions.first_mut(), pages) {
            first.sgt = pages.into_table();
        }
        let kind = if self.integrity {
            RwKind::Integrity
        } else {
            RwKind::Regions
        };
        let count = self.regions.len() as u32;
        let (memory, _, _) = core::mem::take(&mut self.regions).into_raw_parts();
        ctx.set(kind, count, |u| {
            u.reg = core::mem::ManuallyDrop::new(memory)
        });
        requests
    }
}

/// The first request of a region: the invalidation of the former registration, if there is one.
fn first_of(region: &mut RegCtx) -> *mut ib_send_wr {
    if region.inv_wr.next.is_null() {
        &mut region.reg_wr.wr
    } else {
        &mut region.inv_wr
    }
}

/// Sets up the requests of a region, and returns their number.
fn set_up_region(
    region: &mut RegCtx,
    mr: &mut PooledMr<'_>,
    transfer: &Transfer,
    done: u64,
    invalidates: bool,
) -> u32 {
    let (iova, length) = mr.range();
    let mut requests = 2;
    if mr.needs_invalidation() {
        region.inv_wr.opcode = bindings::IB_WR_LOCAL_INV;
        region.inv_wr.ex.invalidate_rkey = mr.lkey();
        region.inv_wr.next = &mut region.reg_wr.wr;
        requests += 1;
    }
    region.reg_wr.wr.opcode = bindings::IB_WR_REG_MR;
    region.reg_wr.mr = mr.as_raw();
    region.reg_wr.key = mr.lkey();
    region.reg_wr.wr.next = &mut region.wr.wr;
    region.sge.addr = iova;
    region.sge.length = length as u32;
    region.wr = transfer.request(done);
    region.wr.wr.sg_list = &mut region.sge;
    region.wr.wr.num_sge = 1;
    if transfer.is_read() && invalidates {
        region.wr.wr.opcode = bindings::IB_WR_RDMA_READ_WITH_INV;
        region.wr.wr.ex.invalidate_rkey = mr.lkey();
    }
    requests
}

/// Adapts the request to an integrity region: the protection information is not transferred where the wire domain has none.
fn integrity_request(region: &mut RegCtx) {
    region.reg_wr.wr.opcode = bindings::IB_WR_REG_MR_INTEGRITY;
    // SAFETY: A lent region is valid, with its signature attributes, if any; only the borrower changes them.
    let attrs = unsafe { (*region.mr).sig_attrs.as_ref() };
    if let Some(attrs) = attrs.filter(|attrs| attrs.wire.sig_type == bindings::IB_SIG_TYPE_NONE) {
        region.sge.length = region.sge.length.wrapping_sub(attrs.meta_length as u32);
    }
}

/// The pool of a queue pair for the RW API, or that of integrity regions.
fn pool_of(qp: &Qp, integrity: bool) -> MrPool<'_> {
    if integrity {
        qp.sig_mrs()
    } else {
        qp.rdma_mrs()
    }
}

impl Drop for Regions<'_> {
    fn drop(&mut self) {
        for region in &self.regions {
            // SAFETY: By the type invariants the region is lent to `self`.
            let mr = unsafe { PooledMr::from_c(region.mr) };
            self.pool().put(mr);
        }
    }
}

view_of! {
    /// The signature attributes of a transfer: `struct ib_sig_attrs`.
    pub struct SigAttrsView(ib_sig_attrs);
}

impl PooledMr<'_> {
    /// Whether the region is registered, and so needs an invalidation first.
    #[inline]
    fn needs_invalidation(&self) -> bool {
        // SAFETY: By the type invariants only the borrower changes the region.
        unsafe { (*self.as_raw()).need_inval }
    }

    /// Sets the signature attributes of the region.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a region that is no integrity region.
    pub fn set_sig_attrs(&mut self, attrs: &SigAttrsView) -> Result {
        // SAFETY: By the type invariants only the holder of `self`, which is borrowed exclusively, changes the region and its
        // attributes, if any.
        unsafe {
            let own = (*self.as_raw()).sig_attrs;
            if own.is_null() {
                return Err(EINVAL);
            }
            own.write(attrs.as_raw().read());
        }
        Ok(())
    }

    /// Advances the keys of the region before it is registered, and returns the remote key.
    fn next_key(&mut self, need_inval: bool) -> u32 {
        let low = self.lkey().wrapping_add(1) & 0xff;
        let (lkey, rkey) = (self.lkey() & !0xff | low, self.rkey() & !0xff | low);
        // SAFETY: By the type invariants only the holder of `self`, which is borrowed exclusively, changes the region; others
        // read each key by a single load.
        unsafe {
            let raw = self.as_raw();
            (*raw).need_inval = need_inval;
            (&raw mut (*raw).lkey).write_volatile(lkey);
            (&raw mut (*raw).rkey).write_volatile(rkey);
        }
        lkey
    }
}

impl RwUninit<'_> {
    fn set(
        &mut self,
        kind: RwKind,
        nr_ops: u32,
        fill: impl FnOnce(&mut bindings::rdma_rw_ctx__bindgen_ty_1),
    ) {
        self.0.type_ = kind as u8;
        self.0.nr_ops = nr_ops;
        fill(&mut self.0.__bindgen_anon_1);
    }

    /// Sets up one request for one element.
    pub fn set_single(&mut self, span: DmaSpan, lkey: u32, transfer: &Transfer) {
        self.set(RwKind::Single, 1, |u| {
            // SAFETY: The memory is lent exclusively, does not move, and any bytes are a valid member of the union.
            let single = unsafe { &mut u.single };
            single.sge = ib_sge {
                addr: span.address,
                length: span.length,
                lkey,
            };
            single.wr = transfer.request(0);
            single.wr.wr.num_sge = 1;
            single.wr.wr.sg_list = &mut single.sge;
        });
    }

    /// Sets up requests with up to `max_sge` elements each, and returns their number.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EINVAL` without elements.
    pub fn set_multi(
        &mut self,
        spans: impl Iterator<Item = DmaSpan>,
        count: u32,
        (lkey, max_sge): (u32, u32),
        transfer: &Transfer,
    ) -> Result<u32> {
        let max_sge = max_sge.max(1);
        let nr_ops = (count / max_sge).wrapping_add((count % max_sge != 0).into());
        let mut sges = KVec::with_capacity(count as usize, GFP_KERNEL)?;
        let mut requests = KVec::with_capacity(nr_ops as usize, GFP_KERNEL)?;
        for span in spans.take(count as usize) {
            let sge = ib_sge {
                addr: span.address,
                length: span.length,
                lkey,
            };
            sges.push(sge, GFP_KERNEL)?;
        }
        let mut done = 0u64;
        for part in sges.chunks_mut(max_sge as usize) {
            let mut request = transfer.request(done);
            done = part
                .iter()
                .fold(done, |done, sge| done.wrapping_add(sge.length.into()));
            request.wr.sg_list = part.as_mut_ptr();
            request.wr.num_sge = part.len() as c_int;
            requests.push(request, GFP_KERNEL)?;
        }
        let nr_ops = requests.len() as u32;
        if nr_ops == 0 {
            return Err(EINVAL);
        }
        let (sges, _, _) = sges.into_raw_parts();
        let (wrs, _, _) = requests.into_raw_parts();
        for nth in 1..nr_ops as usize {
            // SAFETY: `nth` is less than the number of requests in the array.
            unsafe { (*wrs.add(nth - 1)).wr.next = &mut (*wrs.add(nth)).wr };
        }
        let map = bindings::rdma_rw_ctx__bindgen_ty_1__bindgen_ty_2 { sges, wrs };
        self.set(RwKind::Multi, nr_ops, |u| {
            u.map = core::mem::ManuallyDrop::new(map)
        });
        Ok(nr_ops)
    }

    /// Sets up one request for a range of pages that the IOMMU maps contiguously.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` where no IOMMU can do that; and those of DMA mapping.
    pub fn set_iova(
        &mut self,
        device: &Device,
        bvecs: &Bvecs<'_>,
        mut range: BvecRange<'_>,
        lkey: u32,
        transfer: &Transfer,
    ) -> Result {
        let dma_device = device.dma_device_raw().ok_or(EOPNOTSUPP)?;
        let total = range.len();
        let first = { range }.next(bvecs).ok_or(EINVAL)?;
        let mut state = pin_init::zeroed();
        // SAFETY: The device and the page are valid.
        let got = unsafe {
            let phys = bindings::rdma_bvec_phys(&first);
            bindings::dma_iova_try_alloc(dma_device, &mut state, phys, total)
        };
        if !got {
            return Err(EOPNOTSUPP);
        }
        let (mut mapped, direction) = (0usize, dma_direction(transfer.direction));
        let mut link = || -> Result {
            while let Some(piece) = range.next(bvecs) {
                let length = piece.bv_len as usize;
                // SAFETY: The IOVA range was allocated, and the page is valid as long as the context.
                to_result(unsafe {
                    let phys = bindings::rdma_bvec_phys(&piece);
                    bindings::dma_iova_link(
                        dma_device, &mut state, phys, mapped, length, direction, 0,
                    )
                })?;
                mapped = mapped.wrapping_add(length);
            }
            // SAFETY: `mapped` bytes of the range were linked.
            to_result(unsafe { bindings::dma_iova_sync(dma_device, &mut state, 0, mapped) })
        };
        if let Err(error) = link() {
            // SAFETY: `mapped` bytes of the range were linked.
            unsafe {
                bindings::dma_iova_destroy(dma_device, &mut state, mapped, direction, 0);
            }
            return Err(error);
        }
        self.set(RwKind::Iova, 1, |u| {
            // SAFETY: The memory is lent exclusively, does not move, and any bytes are a valid member of the union.
            let iova = unsafe { &mut u.iova };
            iova.state = state;
            iova.mapped_len = mapped;
            iova.sge = ib_sge {
                addr: state.addr,
                length: mapped as u32,
                lkey,
            };
            iova.wr = transfer.request(0);
            iova.wr.wr.num_sge = 1;
            iova.wr.wr.sg_list = &mut iova.sge;
        });
        Ok(())
    }
}

/// The regions of a context.
///
/// # Safety
///
/// The kind of the context is [`RwKind::Regions`] or [`RwKind::Integrity`].
unsafe fn regions_of(ctx: &mut rdma_rw_ctx) -> &mut [RegCtx] {
    // SAFETY: By the safety requirements the member of the union is `reg`, an array of `nr_ops` elements.
    unsafe { core::slice::from_raw_parts_mut(*ctx.__bindgen_anon_1.reg, ctx.nr_ops as usize) }
}

impl RwReady<'_> {
    /// Prepares the requests for posting, with new keys for regions. Returns the first request and the last one.
    fn requests(&mut self) -> Option<(*mut ib_send_wr, *mut ib_send_wr)> {
        let kind = kind_of(self.0)?;
        // SAFETY: By the type invariants the member of the union is the one that the kind selects, and the regions are lent to
        // the context.
        unsafe {
            let raw = &mut *self.0;
            match kind {
                RwKind::Single => {
                    let wr = &raw mut (*raw.__bindgen_anon_1.single).wr.wr;
                    Some((wr, wr))
                }
                RwKind::Iova => {
                    let wr = &raw mut (*raw.__bindgen_anon_1.iova).wr.wr;
                    Some((wr, wr))
                }
                RwKind::Multi => {
                    let wrs = raw.__bindgen_anon_1.map.wrs;
                    let last = wrs.add(raw.nr_ops.saturating_sub(1) as usize);
                    Some((&raw mut (*wrs).wr, &raw mut (*last).wr))
                }
                RwKind::Regions | RwKind::Integrity => {
                    let regions = regions_of(raw);
                    for region in &mut *regions {
                        let mut mr = PooledMr::from_c(region.mr);
                        let opcode = region.wr.wr.opcode;
                        let key = mr.next_key(opcode != bindings::IB_WR_RDMA_READ_WITH_INV);
                        region.reg_wr.key = key;
                        region.sge.lkey = key;
                    }
                    let last = &raw mut regions.last_mut()?.wr.wr;
                    Some((first_of(regions.first_mut()?), last))
                }
            }
        }
    }

    /// Prepares the requests for posting, and returns the first. `chain` follows the last one; without `chain` the last one
    /// completes with `done`. Null for a context that was never set up.
    pub fn chain(mut self, done: RwDone<'_>, chain: RwChain<'_>) -> *mut ib_send_wr {
        let Some((first, last)) = self.requests() else {
            return null_mut();
        };
        // SAFETY: By the type invariants the context is lent exclusively, with its requests.
        let last = unsafe { &mut *last };
        if chain.0.is_null() {
            last.__bindgen_anon_1.wr_cqe = done.0;
            last.send_flags |= bindings::IB_SEND_SIGNALED as c_int;
        } else {
            last.next = chain.0;
        }
        first
    }

    /// Posts the requests; returns 0 or the driver's errno. Any context.
    pub fn post(self, qp: &RwQp<'_>, done: RwDone<'_>, chain: RwChain<'_>) -> c_int {
        let first = self.chain(done, chain);
        if first.is_null() {
            return EINVAL.to_errno();
        }
        // SAFETY: By the type invariants the context is valid until the requests have completed. So are `chain` and `done`,
        // which C has passed with it.
        unsafe { qp.driver_post_send(first) }
    }
}

impl RwUsed<'_> {
    /// What the context is; `None` if it was never set up.
    pub fn kind(&self) -> Option<RwKind> {
        kind_of(self.0)
    }

    /// Releases the resources of the context, and unmaps the lists that were mapped for it; `one_by_one` says that its pages
    /// were mapped one by one. Any context.
    pub fn destroy<'a, const N: usize>(
        self,
        qp: &RwQp<'_>,
        lists: [(RwList<'a>, u32); N],
        direction: dma_data_direction,
        one_by_one: bool,
    ) {
        let Some(device) = qp.pd().map(|pd| pd.device()) else {
            return;
        };
        self.release(qp, device, direction, one_by_one);
        for (RwList(list), count) in lists.into_iter().filter(|(_, count)| *count != 0) {
            if let Ok(table) = list.table(count) {
                // SAFETY: By the header C passes the list that was mapped with the context, which is given up.
                drop(unsafe { Mapping::of(device, table, direction) });
            }
        }
    }

    fn release(
        self,
        qp: &RwQp<'_>,
        device: &Device,
        direction: dma_data_direction,
        one_by_one: bool,
    ) {
        // SAFETY: By the type invariants the member of the union is the one that the kind selects, and the context owns its
        // resources.
        unsafe {
            let kind = self.kind();
            let raw = self.0;
            match kind {
                Some(RwKind::Single) => {
                    if one_by_one {
                        unmap_page(device, &raw.__bindgen_anon_1.single.sge, direction);
                    }
                }
                Some(RwKind::Multi) => {
                    let (sges, wrs) = {
                        let map = &raw.__bindgen_anon_1.map;
                        (map.sges, map.wrs)
                    };
                    let requests = core::slice::from_raw_parts(wrs, raw.nr_ops as usize);
                    let pieces = requests.iter().map(|request| request.wr.num_sge as usize);
                    if one_by_one {
                        for nth in 0..pieces.sum() {
                            unmap_page(device, &*sges.add(nth), direction);
                        }
                    }
                    free(sges);
                    free(wrs);
                }
                Some(RwKind::Iova) => {
                    let iova = &mut raw.__bindgen_anon_1.iova;
                    if let Some(dev) = device.dma_device_raw() {
                        let (mapped, dir) = (iova.mapped_len, dma_direction(direction));
                        bindings::dma_iova_destroy(dev, &mut iova.state, mapped, dir, 0);
                    }
                }
                Some(kind @ (RwKind::Regions | RwKind::Integrity)) => {
                    let regions = regions_of(raw);
                    let pool = pool_of(qp, kind == RwKind::Integrity);
                    for region in &*regions {
                        pool.put(PooledMr::from_c(region.mr));
                    }
                    if let Some(first) = regions.first_mut().filter(|r| !r.sgt.sgl.is_null()) {
                        let list = first.sgt.sgl;
                        bindings::ib_dma_unmap_sgtable(device.as_raw(), &mut first.sgt, direction);
                        free(list);
                    }
                    free(regions.as_mut_ptr());
                }
                None => {}
            }
        }
    }
}

/// Frees an array.
///
/// # Safety
///
/// `array` is the memory of a `KVec`, which is not used any more.
unsafe fn free<T>(array: *mut T) {
    if let Some(array) = core::ptr::NonNull::new(array) {
        // SAFETY: By the safety requirements; `kfree` does not look at the size.
        unsafe { Kmalloc::free(array.cast(), core::alloc::Layout::new::<T>()) };
    }
}

/// The completion handler that C passes with a context, or null.
pub struct RwDone<'a>(*mut ib_cqe, PhantomData<&'a ib_cqe>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for RwDone<'_> {
    type Raw = *mut ib_cqe;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}

/// The requests that follow those of a context, or null.
pub struct RwChain<'a>(*mut ib_send_wr, PhantomData<&'a ib_send_wr>);

// SAFETY: `Raw` is the type in the header.
unsafe impl FromC for RwChain<'_> {
    type Raw = *mut ib_send_wr;

    #[inline]
    unsafe fn from_c(raw: Self::Raw) -> Self {
        Self(raw, PhantomData)
    }
}
