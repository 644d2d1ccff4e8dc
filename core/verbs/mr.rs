// SPDX-License-Identifier: GPL-2.0

//! Memory regions: allocation, mapping, deregistration.
//!
//! C header: `include/rdma/ib_verbs.h` (`struct ib_mr`).

use kernel::{ffi::c_int, prelude::*};
use kernel_ext::{bindings as c, error::EOPNOTSUPP, export::export};
use rdma::{
    core::{
        mr::{DmaList, DmaSpan, MappingMr, NewMr, SetPage, SgOffset, SigAttrs},
        object::{Failed, Owned, OwnedOrErr, UdataView},
        trace, Mr, Pd,
    },
    MaySleep,
};

use crate::restrack::track;

/// Fills in a new region by `finish`, and tracks it.
fn account(pd: &Pd, mut mr: NewMr<'_>, finish: impl FnOnce(NewMr<'_>) -> Owned<Mr>) -> Owned<Mr> {
    track::set_owner_of(&mut mr, pd);
    let mr = finish(mr);
    track::add(&mr);
    mr
}

/// Allocates a region for later mapping.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` for an integrity region, and errors of the driver.
pub(crate) fn alloc(pd: &Pd, kind: u32, max_num_sg: u32, sleep: &MaySleep) -> Result<Owned<Mr>> {
    let mr = make(pd, kind, max_num_sg, sleep);
    trace::mr_alloc(pd, kind, max_num_sg, mr.as_deref());
    mr
}

fn make(pd: &Pd, kind: u32, max_num_sg: u32, sleep: &MaySleep) -> Result<Owned<Mr>> {
    if !pd.device().has_alloc_mr() {
        return Err(EOPNOTSUPP);
    }
    if kind == c::IB_MR_TYPE_INTEGRITY {
        return Err(EINVAL);
    }
    let mr = pd.driver_alloc_mr(kind, max_num_sg, sleep)?;
    Ok(account(pd, mr, |mr| mr.into_owned(kind)))
}

/// Allocates an integrity region.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` without space for metadata, `ENOMEM`, and errors of the driver.
pub(crate) fn alloc_integrity(
    pd: &Pd,
    max_data_sg: u32,
    max_meta_sg: u32,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    let mr = make_integrity(pd, max_data_sg, max_meta_sg, sleep);
    trace::mr_integ_alloc(pd, max_data_sg, max_meta_sg, mr.as_deref());
    mr
}

fn make_integrity(
    pd: &Pd,
    max_data_sg: u32,
    max_meta_sg: u32,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    if !pd.device().has_integrity() {
        return Err(EOPNOTSUPP);
    }
    if max_meta_sg == 0 {
        return Err(EINVAL);
    }
    let attrs = SigAttrs::new()?;
    let mr = pd.driver_alloc_mr_integrity(max_data_sg, max_meta_sg, sleep)?;
    Ok(account(pd, mr, |mr| mr.into_integrity(attrs)))
}

/// Deregisters a region.
///
/// # Errors
///
/// Errors of the driver: the region is then not deregistered.
pub(crate) fn dereg(mr: Owned<Mr>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    trace::mr_dereg(&mr);
    track::remove(&mr, sleep);
    mr.driver_dereg(udata, sleep).map_err(Failed::keep)
}

fn reg_user(
    pd: &Pd,
    (start, length, iova): (u64, u64, u64),
    access: u32,
    sleep: &MaySleep,
) -> Result<Owned<Mr>> {
    let on_demand = access & c::IB_ACCESS_ON_DEMAND != 0;
    let can = pd.device().attrs().kernel_cap_flags & u64::from(c::IBK_ON_DEMAND_PAGING) != 0;
    if on_demand && !can {
        return Err(EINVAL);
    }
    let mr = pd.driver_reg_user((start, length, iova), access, None, None, sleep)?;
    Ok(account(pd, mr, |mr| mr.into_user(iova, length)))
}

/// Registers memory of the current process for a kernel client. Process context.
///
/// # Errors
///
/// `EINVAL` for on-demand paging without device support, and errors of the driver.
#[export]
fn ib_reg_user_mr(
    pd: &Pd,
    start: u64,
    length: u64,
    virt_addr: u64,
    access_flags: c_int,
    sleep: &MaySleep,
) -> OwnedOrErr<Mr> {
    OwnedOrErr(reg_user(
        pd,
        (start, length, virt_addr),
        access_flags as u32,
        sleep,
    ))
}

/// Passes advice about the use of memory to the device. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_advise_mr(
    pd: &Pd,
    advice: c::ib_uverbs_advise_mr_advice,
    flags: u32,
    sg_list: rdma::core::mr::Ranges<'_>,
    num_sge: rdma::core::mr::RangeCount<'_>,
    sleep: &MaySleep,
) -> Result {
    if !pd.has_advise_mr() {
        return Err(EOPNOTSUPP);
    }
    if num_sge.is_zero() {
        return Ok(());
    }
    pd.driver_advise_mr(advice, flags, sg_list, num_sge, sleep)
}

/// Deregisters a region. Process context.
///
/// # Errors
///
/// Errors of the driver: the region is then not deregistered.
#[export]
fn ib_dereg_mr_user(mr: Owned<Mr>, udata: Option<&UdataView>, sleep: &MaySleep) -> Result {
    dereg(mr, udata, sleep)
}

/// Allocates a region for later mapping of up to `max_num_sg` elements. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` for an integrity region, and errors of the driver.
#[export]
fn ib_alloc_mr(
    pd: &Pd,
    mr_type: c::ib_mr_type,
    max_num_sg: u32,
    sleep: &MaySleep,
) -> OwnedOrErr<Mr> {
    OwnedOrErr(alloc(pd, mr_type, max_num_sg, sleep))
}

/// Allocates an integrity region. Process context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, `EINVAL` without space for metadata, `ENOMEM`, and errors of the driver.
#[export]
fn ib_alloc_mr_integrity(
    pd: &Pd,
    max_num_data_sg: u32,
    max_num_meta_sg: u32,
    sleep: &MaySleep,
) -> OwnedOrErr<Mr> {
    OwnedOrErr(alloc_integrity(pd, max_num_data_sg, max_num_meta_sg, sleep))
}

/// Queries the integrity status of a region; `check_mask` is `enum ib_mr_status_check`.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_check_mr_status(mr: &Mr, check_mask: u32, mr_status: &mut c::ib_mr_status) -> Result {
    mr.driver_check_status(check_mask, mr_status)
}

/// Maps the longest possible prefix of a DMA mapped scatterlist into a region, with pages of a given size. Returns the
/// number of mapped elements. Any context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support, and errors of the driver.
#[export]
fn ib_map_mr_sg(
    mr: &Mr,
    sg: DmaList<'_>,
    sg_nents: c_int,
    sg_offset: SgOffset<'_>,
    page_size: u32,
) -> c_int {
    map(mr, sg, sg_nents, sg_offset, page_size)
        .map_or_else(|error| error.to_errno(), |count| count as c_int)
}

/// As `ib_map_mr_sg`.
pub(crate) fn map(
    mr: &Mr,
    sg: DmaList<'_>,
    sg_nents: c_int,
    sg_offset: SgOffset<'_>,
    page_size: u32,
) -> Result<u32> {
    if !mr.device().has_map_mr_sg() {
        return Err(EOPNOTSUPP);
    }
    mr.set_page_size(page_size);
    mr.driver_map_sg(sg, sg_nents, sg_offset)
}

/// Maps data and metadata into an integrity region. Any context.
///
/// # Errors
///
/// `EOPNOTSUPP` without driver support or for another type of region, and errors of the driver.
#[export]
#[expect(
    clippy::too_many_arguments,
    reason = "the C header declares these arguments"
)]
fn ib_map_mr_sg_pi(
    mr: &Mr,
    data_sg: DmaList<'_>,
    data_sg_nents: c_int,
    data_sg_offset: SgOffset<'_>,
    meta_sg: DmaList<'_>,
    meta_sg_nents: c_int,
    meta_sg_offset: SgOffset<'_>,
    page_size: u32,
) -> Result {
    let data = (data_sg, data_sg_nents, data_sg_offset);
    let meta = (meta_sg, meta_sg_nents, meta_sg_offset);
    map_pi(mr, data, meta, page_size)
}

/// As `ib_map_mr_sg_pi`.
pub(crate) fn map_pi(
    mr: &Mr,
    data: (DmaList<'_>, c_int, SgOffset<'_>),
    meta: (DmaList<'_>, c_int, SgOffset<'_>),
    page_size: u32,
) -> Result {
    if !mr.device().has_map_mr_sg_pi() || mr.kind() != c::IB_MR_TYPE_INTEGRITY {
        return Err(EOPNOTSUPP);
    }
    mr.set_page_size(page_size);
    mr.driver_map_sg_pi(data, meta)
}

/// Result of converting a scatterlist to pages.
struct Paged {
    /// The number of elements that are completely in pages.
    pieces: u32,
    /// The offset in the next element of the first byte that is in no page.
    offset: u32,
    /// The number of bytes in pages.
    length: u64,
    /// The error of `set_page` that ended the conversion.
    error: Option<Error>,
}

/// Converts the longest possible prefix of a scatterlist to pages: each element must be contiguous with the one before,
/// or both must meet at page boundaries.
fn to_pages(
    pieces: impl Iterator<Item = DmaSpan>,
    first_offset: u32,
    page_size: u64,
    mut set_page: impl FnMut(u64) -> Result,
) -> Paged {
    let mut paged = Paged {
        pieces: 0,
        offset: 0,
        length: 0,
        error: None,
    };
    let mask = page_size.wrapping_neg();
    let mut offset = first_offset;
    let mut last_end = None;
    for piece in pieces {
        let begin = piece.address.wrapping_add(offset.into());
        let end = piece.address.wrapping_add(piece.length.into());
        let mut page = begin & mask;
        // If the element continues within a page, that page is set already.
        let goes_on = last_end.is_some_and(|last| last & !mask != 0 || page != begin);
        if goes_on && last_end != Some(begin) {
            break;
        }
        if goes_on {
            page = page.wrapping_add(page_size);
        }
        while page < end || (page == begin && end == begin && !goes_on) {
            if let Err(error) = set_page(page) {
                let reached = page.max(begin);
                paged.length = paged.length.wrapping_add(reached.wrapping_sub(begin));
                paged.offset = reached.wrapping_sub(piece.address) as u32;
                paged.error = Some(error);
                return paged;
            }
            page = page.wrapping_add(page_size);
        }
        paged.length = paged.length.wrapping_add(end.wrapping_sub(begin));
        paged.pieces = paged.pieces.wrapping_add(1);
        last_end = Some(end);
        offset = 0;
    }
    paged
}

/// For drivers: converts the longest possible prefix of a DMA mapped scatterlist to pages of the region's size, and
/// passes each to `set_page`. Returns the number of elements; `sg_offset` is then the offset in the next element of the
/// first byte that is in no page. Any context.
///
/// # Errors
///
/// `EINVAL` for an empty list, an offset beyond the first element, or a region without pages; the error of `set_page`
/// for the first page.
#[export]
fn ib_sg_to_pages<'a>(
    mr: MappingMr<'a>,
    sgl: DmaList<'a>,
    sg_nents: c_int,
    mut sg_offset: SgOffset<'a>,
    set_page: SetPage<'a>,
) -> c_int {
    let offset = sg_offset.get();
    let page_size = u64::from(mr.page_size());
    let count = usize::try_from(sg_nents).unwrap_or(0);
    let mut pieces = sgl.spans(count).peekable();
    let first = match pieces.peek() {
        Some(first) if offset <= first.length && page_size.is_power_of_two() => *first,
        _ => return EINVAL.to_errno(),
    };
    let iova = first.address.wrapping_add(offset.into());
    let paged = to_pages(pieces, offset, page_size, |page| set_page.call(&mr, page));
    mr.set_range(iova, paged.length);
    sg_offset.set(paged.offset);
    match paged.error {
        Some(error) if paged.pieces == 0 && paged.offset == 0 => error.to_errno(),
        _ => paged.pieces as c_int,
    }
}
