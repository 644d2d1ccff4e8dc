// SPDX-License-Identifier: GPL-2.0

//! The RW API: RDMA READ and WRITE of scattered memory, with or without memory registration as the device requires.
//!
//! A queue pair needs additional send queue entries and pools of memory regions for it. iWARP requires a region as the
//! target of a READ; other devices may prefer one (`max_sgl_rd`).
//!
//! C header: `include/rdma/rw.h`.

use core::sync::atomic::{AtomicBool, Ordering};

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{
    bindings as c, compat::limit::Limit, error::EOPNOTSUPP, export::export, param::bool_param,
};
use rdma::{
    core::{
        mr::{DmaList, DmaSpan, SgOffset},
        object::Owned,
        qp::{QpInit, QpInitMut},
        rw::{
            BvecRange, Bvecs, MappedPages, Mapping, PageList, Regions, RwChain, RwDone, RwKind,
            RwList, RwQp, RwReady, RwUninit, RwUsed, SigAttrsView, Transfer,
        },
        Device, Pd, Qp,
    },
    MaySleep,
};

use crate::verbs::{mr, mr_pool};

/// Maximum number of pages of a region.
const MAX_REGION_PAGES: u32 = 256;

/// Module parameter `force_mr`: all operations use regions, for tests on devices that do not require them.
static FORCE_REGIONS: AtomicBool = AtomicBool::new(false);

bool_param!(
    c"force_mr",
    FORCE_REGIONS,
    hidden,
    b"parmtype=force_mr:bool\0parm=force_mr:Force usage of MRs for RDMA READ/WRITE operations\0"
);

fn forces_regions() -> bool {
    FORCE_REGIONS.load(Ordering::Relaxed)
}

/// Whether operations on a port may use regions.
fn may_use_regions(device: &Device, port: u32) -> bool {
    device.is_iwarp(port) || device.attrs().max_sgl_rd != 0 || forces_regions()
}

/// Number of pages of a region.
fn region_pages(device: &Device, integrity: bool) -> u32 {
    let attrs = device.attrs();
    let pages = if integrity {
        attrs.max_pi_fast_reg_page_list_len
    } else {
        attrs.max_fast_reg_page_list_len
    };
    pages.min(MAX_REGION_PAGES)
}

/// Maximum number of send queue entries of an operation: the transfer, and registering and invalidating a region.
fn requests_per_context(device: &Device, port: u32, integrity: bool) -> u32 {
    if integrity || may_use_regions(device, port) {
        3
    } else {
        1
    }
}

/// Adds the send queue entries for all contexts of a queue pair, up to the limit of the device.
pub(crate) fn make_room(device: &Device, init: &mut QpInitMut<'_>) {
    let each = requests_per_context(device, init.port_num(), init.wants_integrity());
    let wanted = each.saturating_mul(init.max_rdma_ctxs());
    let most = device.attrs().max_qp_wr.most();
    let max_send_wr = init.max_send_wr().saturating_add(wanted).min(most);
    init.set_max_send_wr(max_send_wr);
}

/// Fills the memory region pools of a queue pair.
///
/// # Errors
///
/// Those of allocating a region.
pub(crate) fn fill_pools(qp: &Owned<Qp>, init: &QpInit, sleep: &MaySleep) -> Result {
    let device = qp.device();
    let count = init.max_rdma_ctxs();
    let integrity = init.wants_integrity();
    if !integrity && !may_use_regions(device, init.port_num()) {
        return Ok(());
    }
    let pages = region_pages(device, integrity);
    let (pool, kind) = (qp.rdma_mrs(), c::IB_MR_TYPE_MEM_REG);
    mr_pool::fill(pool, count, kind, (pages, 0), sleep)
        .inspect_err(|_| pr_err!("failed to allocate {count} MRs\n"))?;
    if !integrity {
        return Ok(());
    }
    let (pool, kind) = (qp.sig_mrs(), c::IB_MR_TYPE_INTEGRITY);
    mr_pool::fill(pool, count, kind, (pages, pages), sleep).inspect_err(|_| {
        pr_err!("failed to allocate {count} SIG MRs\n");
        mr_pool::empty(qp.rdma_mrs(), sleep);
    })
}

/// Empties the memory region pools of a queue pair.
pub(crate) fn empty_pools(qp: &Owned<Qp>, sleep: &MaySleep) {
    mr_pool::empty(qp.sig_mrs(), sleep);
    mr_pool::empty(qp.rdma_mrs(), sleep);
}

/// `count` divided by `n`, which is not 0, rounded up.
fn ceil(count: u32, n: u32) -> u32 {
    (count / n).wrapping_add((count % n != 0).into())
}

/// Returns the number of regions or requests of a transfer of `maxpages` pages.
#[export]
fn rdma_rw_mr_factor(device: &Device, port_num: u32, maxpages: u32) -> u32 {
    let pages = if may_use_regions(device, port_num) {
        region_pages(device, false)
    } else {
        device.attrs().max_sge_rd.most()
    };
    ceil(maxpages, pages.max(1))
}

/// Returns the number of send queue entries for `max_rdma_ctxs` contexts. `create_flags` is `enum ib_qp_create_flags`.
#[export]
fn rdma_rw_max_send_wr(dev: &Device, port_num: u32, max_rdma_ctxs: u32, create_flags: u32) -> u32 {
    let integrity = create_flags & c::IB_QP_CREATE_INTEGRITY_EN as u32 != 0;
    requests_per_context(dev, port_num, integrity).saturating_mul(max_rdma_ctxs)
}

/// Whether a transfer of `count` elements requires regions.
fn needs_regions(device: &Device, port: u32, transfer: &Transfer, count: u32) -> bool {
    let most = device.attrs().max_sgl_rd;
    let for_read = device.is_iwarp(port) || (most != 0 && count > most);
    transfer.is_read() && for_read || forces_regions()
}

/// Access flags of a transfer's regions: a READ over iWARP is a write by the peer.
fn access_of(qp: &Qp, port: u32) -> u32 {
    if qp.device().is_iwarp(port) {
        c::IB_ACCESS_LOCAL_WRITE | c::IB_ACCESS_REMOTE_WRITE
    } else {
        c::IB_ACCESS_LOCAL_WRITE
    }
}

/// Maps elements of a list into regions of the pool.
fn map_regions<'a>(
    qp: &'a RwQp<'a>,
    pd: &Pd,
    mut list: DmaList<'_>,
    count: u32,
    mut offset: u32,
) -> Result<Regions<'a>> {
    let pages = region_pages(pd.device(), qp.integrity_en()).max(1);
    let mut regions = Regions::new(qp, ceil(count, pages), false)?;
    let mut left = count;
    while left != 0 {
        let part = left.min(pages);
        regions.take_region(|mr| {
            let from = SgOffset::at(&mut offset);
            let page_size = kernel::page::PAGE_SIZE as u32;
            let mapped = mr::map(mr, list, part as c_int, from, page_size);
            if mapped.map_or(true, |mapped| mapped < part) {
                return Err(EINVAL);
            }
            Ok(())
        })?;
        list = list.skip(part);
        left = left.saturating_sub(part);
        offset = 0;
    }
    Ok(regions)
}

/// Maximum number of scatter/gather elements of a request.
fn max_sge(qp: &Qp, transfer: &Transfer) -> u32 {
    if transfer.is_read() {
        qp.max_read_sge()
    } else {
        qp.max_write_sge()
    }
}

fn init(
    ctx: &mut RwUninit<'_>,
    qp: &RwQp<'_>,
    port: u32,
    (list, count, mut offset): (DmaList<'_>, u32, u32),
    transfer: &Transfer,
) -> Result<u32> {
    let pd = qp.pd().ok_or(EINVAL)?;
    let device = pd.device();
    let mapping = Mapping::new(device, list, count, transfer.direction)?;
    // Find the element that contains the offset.
    let mut skipped = 0u32;
    for span in list.spans(mapping.count() as usize) {
        if offset < span.length {
            break;
        }
        offset = offset.saturating_sub(span.length);
        skipped = skipped.saturating_add(1);
    }
    let (list, count) = (list.skip(skipped), mapping.count().saturating_sub(skipped));
    if count == 0 {
        return Err(EIO);
    }
    if needs_regions(device, port, transfer, count) {
        match map_regions(qp, pd, list, count, offset) {
            Ok(regions) => {
                let (access, invalidates) = (access_of(qp, port), qp.device().is_iwarp(port));
                mapping.keep();
                return Ok(regions.into_ctx(ctx, transfer, access, invalidates, None));
            }
            // Regions are preferred, but not required.
            Err(EAGAIN) if !qp.device().is_iwarp(port) && !forces_regions() => {}
            Err(error) => return Err(error),
        }
    }
    let lkey = pd.local_dma_lkey();
    let mut first_offset = Some(offset);
    let mut spans = list.spans(count as usize).map(|span| {
        let offset = first_offset.take().unwrap_or(0);
        DmaSpan {
            address: span.address.wrapping_add(offset.into()),
            length: span.length.saturating_sub(offset),
        }
    });
    let requests = if count > 1 {
        ctx.set_multi(spans, count, (lkey, max_sge(qp, transfer)), transfer)?
    } else {
        ctx.set_single(spans.next().ok_or(EIO)?, lkey, transfer);
        1
    };
    mapping.keep();
    Ok(requests)
}

fn init_bvec(
    ctx: &mut RwUninit<'_>,
    qp: &RwQp<'_>,
    port: u32,
    (bvecs, count, range): (&Bvecs<'_>, u32, BvecRange<'_>),
    transfer: &Transfer,
) -> Result<u32> {
    if count == 0 || range.is_empty() {
        return Err(EINVAL);
    }
    let pd = qp.pd().ok_or(EINVAL)?;
    let (device, lkey) = (pd.device(), pd.local_dma_lkey());
    let direction = transfer.direction;
    let invalidates = device.is_iwarp(port);
    if transfer.is_read() && invalidates || forces_regions() {
        let pages = PageList::new(device, bvecs, range, count, direction)?;
        let regions = map_regions(qp, pd, pages.list(), pages.count(), 0)?;
        let access = access_of(qp, port);
        return Ok(regions.into_ctx(ctx, transfer, access, invalidates, Some(pages)));
    }
    if count > 1 {
        match ctx.set_iova(device, bvecs, range, lkey, transfer) {
            Ok(()) => return Ok(1),
            Err(EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    let pages = MappedPages::new(device, bvecs, range, count, (lkey, direction))?;
    let requests = match pages.spans().next() {
        Some(span) if count == 1 => {
            ctx.set_single(span, lkey, transfer);
            1
        }
        _ => {
            let limits = (lkey, max_sge(qp, transfer));
            ctx.set_multi(pages.spans(), pages.count(), limits, transfer)?
        }
    };
    pages.keep();
    Ok(requests)
}

fn init_signature(
    ctx: &mut RwUninit<'_>,
    qp: &RwQp<'_>,
    port: u32,
    (data, data_count): (DmaList<'_>, u32),
    (meta, meta_count): (DmaList<'_>, u32),
    attrs: &SigAttrsView,
    transfer: &Transfer,
) -> Result<u32> {
    let device = qp.pd().ok_or(EINVAL)?.device();
    let most = region_pages(device, qp.integrity_en());
    if data_count > most || meta_count > most {
        pr_err!("SG count too large: {data_count}, {meta_count}, of {most}\n");
        return Err(EINVAL);
    }
    let data_map = Mapping::new(device, data, data_count, transfer.direction)?;
    let meta_map = match meta_count {
        0 => None,
        _ => Some(Mapping::new(device, meta, meta_count, transfer.direction)?),
    };
    let mut regions = Regions::new(qp, 1, true)?;
    let meta_mapped = meta_map.as_ref().map_or(0, Mapping::count);
    regions.take_region(|mr| {
        mr.set_sig_attrs(attrs)?;
        mr::map_pi(
            mr,
            (data, data_map.count() as c_int, SgOffset::NONE),
            (meta, meta_mapped as c_int, SgOffset::NONE),
            4096,
        )
    })?;
    data_map.keep();
    if let Some(meta_map) = meta_map {
        meta_map.keep();
    }
    Ok(regions.into_ctx(ctx, transfer, access_of(qp, port), false, None))
}

/// Converts a number of requests for C.
fn counted(requests: Result<u32>) -> c_int {
    requests.map_or_else(|error| error.to_errno(), |requests| requests as c_int)
}

/// Initialises a context for a transfer of a scatterlist, starting at an offset. Returns the number of send queue
/// entries that it needs. Process context.
///
/// # Errors
///
/// `EIO` for an offset beyond the list; `EAGAIN` where regions are required and the pool is empty; `ENOMEM`, and errors
/// of mapping.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_rw_ctx_init(
    mut ctx: RwUninit<'_>,
    qp: RwQp<'_>,
    port_num: u32,
    sg: DmaList<'_>,
    sg_cnt: u32,
    sg_offset: u32,
    remote_addr: u64,
    rkey: u32,
    direction: c::dma_data_direction,
) -> c_int {
    let transfer = Transfer {
        remote_addr,
        rkey,
        direction,
    };
    let list = (sg, sg_cnt, sg_offset);
    counted(init(&mut ctx, &qp, port_num, list, &transfer))
}

/// As `rdma_rw_ctx_init`, for an array of pages. Process context.
///
/// # Errors
///
/// `EINVAL` for an empty array; else as for `rdma_rw_ctx_init`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_rw_ctx_init_bvec(
    mut ctx: RwUninit<'_>,
    qp: RwQp<'_>,
    port_num: u32,
    bvecs: Bvecs<'_>,
    nr_bvec: u32,
    iter: BvecRange<'_>,
    remote_addr: u64,
    rkey: u32,
    direction: c::dma_data_direction,
) -> c_int {
    let transfer = Transfer {
        remote_addr,
        rkey,
        direction,
    };
    counted(init_bvec(
        &mut ctx,
        &qp,
        port_num,
        (&bvecs, nr_bvec, iter),
        &transfer,
    ))
}

/// As `rdma_rw_ctx_init`, for data with integrity metadata. Process context.
///
/// # Errors
///
/// `EINVAL` beyond the size of a region; else as for `rdma_rw_ctx_init`.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_rw_ctx_signature_init(
    mut ctx: RwUninit<'_>,
    qp: RwQp<'_>,
    port_num: u32,
    sg: DmaList<'_>,
    sg_cnt: u32,
    prot_sg: DmaList<'_>,
    prot_sg_cnt: u32,
    sig_attrs: &SigAttrsView,
    remote_addr: u64,
    rkey: u32,
    direction: c::dma_data_direction,
) -> c_int {
    let transfer = Transfer {
        remote_addr,
        rkey,
        direction,
    };
    let (data, meta) = ((sg, sg_cnt), (prot_sg, prot_sg_cnt));
    counted(init_signature(
        &mut ctx, &qp, port_num, data, meta, sig_attrs, &transfer,
    ))
}

/// Returns the requests of a context as a chain, to be posted once. `chain_wr` is appended; without it, the last
/// request completes with `cqe`. Any context.
#[export]
fn rdma_rw_ctx_wrs(
    ctx: RwReady<'_>,
    _qp: RwQp<'_>,
    _port_num: u32,
    cqe: RwDone<'_>,
    chain_wr: RwChain<'_>,
) -> *mut c::ib_send_wr {
    ctx.chain(cqe, chain_wr)
}

/// Posts the chain of `rdma_rw_ctx_wrs`. Any context.
///
/// # Errors
///
/// Errors of the driver.
#[export]
fn rdma_rw_ctx_post(
    ctx: RwReady<'_>,
    qp: RwQp<'_>,
    _port_num: u32,
    cqe: RwDone<'_>,
    chain_wr: RwChain<'_>,
) -> c_int {
    ctx.post(&qp, cqe, chain_wr)
}

/// Destroys a context whose requests have completed. Any context.
#[export]
fn rdma_rw_ctx_destroy(
    ctx: RwUsed<'_>,
    qp: RwQp<'_>,
    _port_num: u32,
    sg: RwList<'_>,
    sg_cnt: u32,
    direction: c::dma_data_direction,
) {
    let Some(kind) = ctx.kind() else {
        return;
    };
    if matches!(kind, RwKind::Iova | RwKind::Integrity) {
        pr_warn!("a context of the RW API is destroyed as one of another kind\n");
        return;
    }
    ctx.destroy(&qp, [(sg, sg_cnt)], direction, false);
}

/// As `rdma_rw_ctx_destroy`, for one of `rdma_rw_ctx_init_bvec`. Any context.
#[export]
fn rdma_rw_ctx_destroy_bvec(
    ctx: RwUsed<'_>,
    qp: RwQp<'_>,
    _port_num: u32,
    _bvecs: Bvecs<'_>,
    _nr_bvec: u32,
    direction: c::dma_data_direction,
) {
    ctx.destroy(&qp, [], direction, true);
}

/// As `rdma_rw_ctx_destroy`, for one of `rdma_rw_ctx_signature_init`. Any context.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn rdma_rw_ctx_destroy_signature(
    ctx: RwUsed<'_>,
    qp: RwQp<'_>,
    _port_num: u32,
    sg: RwList<'_>,
    sg_cnt: u32,
    prot_sg: RwList<'_>,
    prot_sg_cnt: u32,
    direction: c::dma_data_direction,
) {
    if ctx.kind() != Some(RwKind::Integrity) {
        return;
    }
    let lists = [(prot_sg, prot_sg_cnt), (sg, sg_cnt)];
    ctx.destroy(&qp, lists, direction, false);
}
