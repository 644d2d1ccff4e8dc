// SPDX-License-Identifier: GPL-2.0

//! User memory: pinned ([`pin`]), paged on demand ([`odp`]), or a dma-buf ([`dmabuf`]).
//!
//! C header: `include/rdma/ib_umem.h`.

mod dmabuf;
mod odp;
mod pin;

use kernel::{
    ffi::{c_int, c_ulong, c_void},
    prelude::*,
};
use kernel_ext::{
    bindings::{self as c, ib_umem, ib_uverbs_buffer_desc},
    entry::{ErrPtr, Input},
    export::export,
};
use rdma::{
    core::{
        command::MaybeCommand,
        umem::{
            segments::{MappedUmem, Segment},
            AccessFlags, OwnedUmem, UmemArg, UmemView,
        },
        AttrBundle, Device,
    },
    MaySleep,
};

use crate::memory::udata;

/// Makes the umem of a buffer descriptor.
///
/// # Errors
///
/// `EINVAL` for an unknown type; those of the kind of memory.
fn of_desc(
    device: &Device,
    desc: &ib_uverbs_buffer_desc,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<OwnedUmem> {
    if desc.flags & !c::IB_UVERBS_BUFFER_DESC_FLAGS_KNOWN_MASK != 0 {
        return Err(EINVAL);
    }
    let at = usize::try_from(desc.addr).map_err(|_| EOVERFLOW)?;
    let len = usize::try_from(desc.length).map_err(|_| EOVERFLOW)?;
    match desc.type_ {
        c::IB_UVERBS_BUFFER_TYPE_DMABUF => {
            dmabuf::get_pinned(device, (at, len, desc.fd), access, sleep).map(OwnedUmem::Dmabuf)
        }
        c::IB_UVERBS_BUFFER_TYPE_VA => {
            pin::pin(device, at, len, access, sleep).map(OwnedUmem::Pinned)
        }
        _ => Err(EINVAL),
    }
}

/// As [`of_desc`], with at least `size` bytes.
fn of_desc_sized(
    device: &Device,
    desc: &ib_uverbs_buffer_desc,
    size: usize,
    access: AccessFlags,
    sleep: &MaySleep,
) -> Result<OwnedUmem> {
    let umem = of_desc(device, desc, access, sleep)?;
    if umem.view().len() < size {
        return Err(EINVAL);
    }
    Ok(umem)
}

/// The buffer descriptor in attribute `id`, if there is one.
fn desc_of_attr(command: &AttrBundle, id: u16) -> Result<Option<ib_uverbs_buffer_desc>> {
    match udata::buffer_desc(command, id) {
        Err(error) if error == ENOENT => Ok(None),
        desc => desc.map(Some),
    }
}

/// The buffer descriptor from the legacy attributes of a completion queue, if present: an address, or a dma-buf with an
/// offset, not both, each with a length; the driver must support them.
fn desc_of_cq_attrs(command: &AttrBundle) -> Result<Option<ib_uverbs_buffer_desc>> {
    let has_va = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_VA);
    let has_fd = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_FD);
    let has_offset = command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET);
    if !has_va && !has_fd {
        let stray = has_offset || command.has(c::UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH);
        return if stray { Err(EINVAL) } else { Ok(None) };
    }
    let mut desc = ib_uverbs_buffer_desc::zeroed();
    if has_va {
        desc.type_ = c::IB_UVERBS_BUFFER_TYPE_VA;
        command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_VA, &mut desc.addr)?;
    } else {
        desc.type_ = c::IB_UVERBS_BUFFER_TYPE_DMABUF;
        let fd = command
            .data(c::UVERBS_ATTR_CREATE_CQ_BUFFER_FD as usize)
            .ok_or(ENOENT)?;
        desc.fd = i32::try_from(fd.word() as i64)?;
        command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_OFFSET, &mut desc.addr)?;
    }
    command.read(c::UVERBS_ATTR_CREATE_CQ_BUFFER_LENGTH, &mut desc.length)?;
    let knows = command
        .context_device()
        .is_some_and(|dev| dev.ops().create_user_cq.is_some());
    if !knows || (has_va && (has_fd || has_offset)) {
        return Err(EINVAL);
    }
    Ok(Some(desc))
}

/// The buffer descriptor of a completion queue: from the new or the legacy attributes, not both.
fn desc_of_cq(command: &AttrBundle) -> Result<Option<ib_uverbs_buffer_desc>> {
    let attr = desc_of_attr(command, c::UVERBS_ATTR_CREATE_CQ_BUF_UMEM as u16)?;
    let older = desc_of_cq_attrs(command)?;
    if attr.is_some() && older.is_some() {
        return Err(EINVAL);
    }
    Ok(attr.or(older))
}

/// The buffer descriptor of `size` bytes at a user address.
fn desc_of_va(addr: u64, size: usize) -> ib_uverbs_buffer_desc {
    ib_uverbs_buffer_desc {
        type_: c::IB_UVERBS_BUFFER_TYPE_VA,
        addr,
        length: size as u64,
        ..Zeroable::zeroed()
    }
}

/// Makes the umem of a descriptor, with at least `size` bytes; `None` without a descriptor.
fn described(
    device: &Device,
    desc: Result<Option<ib_uverbs_buffer_desc>>,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> Result<Option<OwnedUmem>> {
    let make = |desc| of_desc_sized(device, &desc, size, AccessFlags(access), sleep);
    desc.and_then(|desc| desc.map(make).transpose())
}

/// Converts an optional umem for C.
fn optional(umem: Result<Option<OwnedUmem>>) -> ErrPtr<ib_umem> {
    ErrPtr(umem.map(|umem| umem.map_or(core::ptr::null_mut(), OwnedUmem::into_raw)))
}

/// Makes the umem of a buffer descriptor.
///
/// # Errors
///
/// `EINVAL`, `EOVERFLOW`, `EOPNOTSUPP`, `EPERM`, `ENOMEM`, `EFAULT`.
#[export]
fn ib_umem_get_desc(
    device: &Device,
    desc: Input<'_, ib_uverbs_buffer_desc>,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    ErrPtr(of_desc(device, &desc, AccessFlags(access), sleep).map(OwnedUmem::into_raw))
}

/// Makes the umem of an attribute's buffer descriptor, with at least `size` bytes; null if the attribute is missing.
///
/// # Errors
///
/// As for `ib_umem_get_desc`; `EINVAL` for a shorter buffer.
#[export]
fn ib_umem_get_attr(
    device: &Device,
    attrs: MaybeCommand<'_>,
    attr_id: u16,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs
        .0
        .map_or(Ok(None), |attrs| desc_of_attr(attrs, attr_id));
    optional(described(device, desc, size, access, sleep))
}

/// As `ib_umem_get_attr`; if the attribute is missing, for `size` bytes at an address.
///
/// # Errors
///
/// As for `ib_umem_get_attr`.
#[export]
fn ib_umem_get_attr_or_va(
    device: &Device,
    attrs: MaybeCommand<'_>,
    attr_id: u16,
    addr: u64,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs
        .0
        .map_or(Ok(None), |attrs| desc_of_attr(attrs, attr_id));
    let desc = desc.map(|desc| Some(desc.unwrap_or_else(|| desc_of_va(addr, size))));
    optional(described(device, desc, size, access, sleep))
}

/// Makes the umem of a completion queue's buffer, with at least `size` bytes; null if none is described.
///
/// # Errors
///
/// As for `ib_umem_get_attr`; `EINVAL` for new and legacy attributes at once.
#[export]
fn ib_umem_get_cq_buf(
    device: &Device,
    attrs: MaybeCommand<'_>,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs.0.map_or(Ok(None), desc_of_cq);
    optional(described(device, desc, size, access, sleep))
}

/// As `ib_umem_get_cq_buf`; if none is described, for `size` bytes at an address.
///
/// # Errors
///
/// As for `ib_umem_get_cq_buf`.
#[export]
fn ib_umem_get_cq_buf_or_va(
    device: &Device,
    attrs: MaybeCommand<'_>,
    addr: u64,
    size: usize,
    access: c_int,
    sleep: &MaySleep,
) -> ErrPtr<ib_umem> {
    let desc = attrs.0.map_or(Ok(None), desc_of_cq);
    let desc = desc.map(|desc| Some(desc.unwrap_or_else(|| desc_of_va(addr, size))));
    optional(described(device, desc, size, access, sleep))
}

/// Releases memory that the device does not use any more; null and error pointers are ignored. Process context.
#[export]
fn ib_umem_release(umem: UmemArg) {
    drop(umem);
}

/// Checks the access flags of a region that is reregistered with the same memory.
///
/// # Errors
///
/// `EACCES` for write access to memory that is pinned for reading.
#[export]
fn ib_umem_check_rereg(umem: Option<&UmemView>, flags: c_int, new_access_flags: c_int) -> Result {
    let changes = |flag: u32| flags as u32 & flag != 0;
    if !changes(c::IB_MR_REREG_ACCESS) || changes(c::IB_MR_REREG_TRANS) {
        return Ok(());
    }
    let writable = umem.is_none_or(UmemView::is_writable);
    if AccessFlags(new_access_flags).is_writable() && !writable {
        return Err(EACCES);
    }
    Ok(())
}

/// The largest of the page sizes in `sizes` with which a device can map `len` bytes at IOVA `virt`, which begin at
/// `offset` of the first of `pieces`; but no larger than the smallest that maps all of it with one page. 0 if there is
/// none.
fn best_page_size(
    pieces: impl Iterator<Item = Segment>,
    offset: usize,
    len: usize,
    sizes: c_ulong,
    virt: u64,
) -> c_ulong {
    let Some(last) = (len as u64).wrapping_sub(1).checked_add(virt) else {
        return 0;
    };
    // Larger pages than one that maps all of it have no advantage.
    let bits = u64::BITS - (virt ^ last).leading_zeros();
    let mut mask = sizes as u64 & u64::MAX.checked_shl(bits.max(1)).unwrap_or(0);
    let mut va = virt;
    let mut skip = offset as u64;
    let mut end = None;
    for (nth, piece) in pieces.enumerate() {
        if end != Some(piece.address) {
            mask |= piece.address.wrapping_add(skip) ^ va;
            if nth != 0 {
                mask |= va;
            }
        }
        end = piece.address.checked_add(piece.len.into());
        va = va.wrapping_add(u64::from(piece.len).wrapping_sub(skip));
        skip = 0;
    }
    let fitting = match mask {
        0 => sizes,
        mask => sizes & usize::MAX.wrapping_shr(usize::BITS - 1 - mask.trailing_zeros()),
    };
    fitting.checked_ilog2().map_or(0, |log| 1 << log)
}

/// The largest page size of those in `pgsz_bitmap` with which a device can map the memory at IOVA `virt`; 0 if there is
/// none.
///
/// DMA address and IOVA must agree modulo the page size wherever a page begins: at the start of each piece that is not
/// contiguous with the one before.
#[export]
fn ib_umem_find_best_pgsz(umem: MappedUmem<'_>, pgsz_bitmap: c_ulong, virt: u64) -> c_ulong {
    umem.set_iova(virt);
    if let Some(shift) = umem.odp_page_shift() {
        return pgsz_bitmap & 1usize.wrapping_shl(shift);
    }
    best_page_size(
        umem.segments(),
        umem.offset(),
        umem.len(),
        pgsz_bitmap,
        virt,
    )
}

/// Copies from pinned memory.
///
/// # Errors
///
/// `EINVAL` for a range outside of the memory.
///
/// # Safety
///
/// There is room for `length` bytes at `dst`, and `umem` is pinned memory.
#[export]
unsafe extern "C" fn ib_umem_copy_from(
    dst: *mut c_void,
    umem: *mut ib_umem,
    offset: usize,
    length: usize,
) -> c_int {
    // SAFETY: By the safety requirements; a view is a transparent wrapper.
    let umem = unsafe { &*umem.cast::<UmemView>() };
    if offset > umem.len() || length > umem.len() - offset {
        return EINVAL.to_errno();
    }
    // SAFETY: By the safety requirements.
    let copied = unsafe { umem.copy_to(dst, length, offset) };
    if copied == length {
        0
    } else {
        EINVAL.to_errno()
    }
}

#[kernel::prelude::kunit_tests(ib_core_page_sizes)]
mod tests {
    use super::*;

    const K4: usize = 1 << 12;
    const K64: usize = 1 << 16;
    const M2: usize = 1 << 21;
    /// All page sizes of 4 KiB and more.
    const ALL: usize = usize::MAX << 12;

    /// The best page size for memory that begins with its first piece and ends with its last one.
    fn best(sizes: usize, virt: u64, pieces: &[(u64, u32)]) -> usize {
        best_from(0, sizes, virt, pieces)
    }

    fn best_from(offset: usize, sizes: usize, virt: u64, pieces: &[(u64, u32)]) -> usize {
        let len: usize = pieces.iter().map(|&(_, len)| len as usize).sum();
        let pieces = pieces
            .iter()
            .map(|&(address, len)| Segment { address, len });
        best_page_size(pieces, offset, len.wrapping_sub(offset), sizes, virt)
    }

    /// The same, by trying each size on each 4 KiB page.
    fn tried(sizes: usize, virt: u64, pieces: &[(u64, u32)]) -> usize {
        let len: u64 = pieces.iter().map(|&(_, len)| u64::from(len)).sum();
        let holds_all = |size: u64| virt / size == (virt + len - 1) / size;
        let mut found = 0;
        for size in (12..48).map(|shift| 1u64 << shift) {
            if sizes as u64 & size == 0 || !fits(size, virt, pieces) {
                continue;
            }
            found = size;
            if holds_all(size) {
                break;
            }
        }
        found as usize
    }

    /// Whether each page of `size` bytes of the IOVA range maps to one page of the memory.
    fn fits(size: u64, virt: u64, pieces: &[(u64, u32)]) -> bool {
        let (mut va, mut before) = (virt, None);
        for &(address, len) in pieces {
            for at in (0..u64::from(len)).step_by(K4) {
                let (page, place) = (va / size, (address + at).wrapping_sub(va));
                if place % size != 0 || before.is_some_and(|(p, at)| p == page && at != place) {
                    return false;
                }
                before = Some((page, place));
                va += K4 as u64;
            }
        }
        true
    }

    #[test]
    fn one_piece() {
        let sizes = K4 | K64 | M2;
        assert_eq!(best(sizes, 0x20_0000, &[(0x4000_0000, 0x40_0000)]), M2);
        assert_eq!(best(sizes, 0x20_0000, &[(0x4001_0000, 0x40_0000)]), K64);
        assert_eq!(best(sizes, 0x20_1000, &[(0x4000_0000, 0x40_0000)]), K4);
        assert_eq!(best(K64 | M2, 0x20_1000, &[(0x4000_0000, 0x40_0000)]), 0);
        assert_eq!(best(M2, 0x21_0000, &[(0x4001_0000, 0x1_0000)]), M2);
    }

    #[test]
    fn no_larger_page_than_one_that_maps_all() {
        assert_eq!(best(ALL, 0x20_0000, &[(0x20_0000, 0x1000)]), K4);
        assert_eq!(best(ALL, 0x20_0000, &[(0x20_0000, 0x1001)]), 2 * K4);
        assert_eq!(best(ALL, 0x20_f000, &[(0x20_f000, 0x2000)]), 2 * K64);
        assert_eq!(best(M2 | 1 << 30, 0x1000, &[(0x1000, 0x1000)]), M2);
    }

    #[test]
    fn pieces_begin_with_pages() {
        let apart = [(0x10_0000, 0x1_0000), (0x30_0000, 0x1_0000)];
        assert_eq!(best(K4 | K64 | M2, 0x10_0000, &apart), K64);
        assert_eq!(best(K4 | K64 | M2, 0x10_1000, &apart), 0x1000);
        let together = [(0x10_0000, 0x1_0000), (0x11_0000, 0x1_0000)];
        assert_eq!(best(K4 | K64 | 2 * K64, 0x20_0000, &together), 2 * K64);
        // The last piece may end anywhere, the others only at the end of a page.
        assert_eq!(
            best(K4 | K64, 0, &[(K64 as u64, 0x1_0000), (0, 0x123)]),
            K64
        );
        assert_eq!(
            best(K4 | K64, 0, &[(K64 as u64, 0x1000), (0, 0x1_0000)]),
            K4
        );
    }

    #[test]
    fn an_offset_into_the_first_page() {
        assert_eq!(best_from(0x234, K4, 0x5234, &[(0x9000, 0x1000)]), K4);
        assert_eq!(best_from(0x234, K4, 0x5235, &[(0x9000, 0x1000)]), 0);
        assert_eq!(
            best_from(0x234, K4, 0x234, &[(0x9000, 0x1000), (0x4000, 0x1000)]),
            K4
        );
        let sizes = 1 << 2 | K4;
        assert_eq!(best_from(0x234, sizes, 0x1004, &[(0x9000, 0x1000)]), 1 << 2);
    }

    #[test]
    fn nothing_fits() {
        assert_eq!(best(0, 0, &[(0, 0x1000)]), 0);
        assert_eq!(best(0, u64::MAX, &[(u64::MAX, 1)]), 0);
        assert_eq!(best(ALL, u64::MAX, &[(0xfff, 2)]), 0);
        assert_eq!(best(ALL, 1, &[]), 0);
        assert_eq!(best(K4, 0x1800, &[(0x1000, 0x1000)]), 0);
    }

    #[test]
    fn at_the_ends_of_the_numbers() {
        let top = 1u64 << 63;
        assert_eq!(best(1 << 63, top, &[(0, 0x1000)]), 1 << 63);
        assert_eq!(best(1 << 63, top, &[(top, 0x1000)]), 1 << 63);
        assert_eq!(
            best(1 << 63, top - 0x1000, &[(top - 0x1000, 0x2000)]),
            1 << 63
        );
        assert_eq!(best(ALL, top - 0x1000, &[(0, 0x2000)]), K4);
        assert_eq!(
            best(ALL, u64::MAX - 0xfff, &[(u64::MAX - 0xfff, 0x1000)]),
            K4
        );
        assert_eq!(best(1, 0, &[(3, 1)]), 1);
        assert_eq!(best(usize::MAX, 0, &[(u64::MAX, 1)]), 1);
    }

    #[test]
    fn equals_trying_all_sizes() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut larger = 0;
        for _ in 0..3000 {
            let count = random(4) as usize + 1;
            let mut pieces = [(0u64, 0u32); 4];
            let mut after = random(64) << 12;
            for piece in pieces.iter_mut().take(count) {
                let gap = if random(2) == 0 { 0 } else { random(16) << 14 };
                *piece = (after + gap, ((random(8) + 1) as u32) << (12 + random(3)));
                after = piece.0 + u64::from(piece.1);
            }
            let pieces = pieces.get(..count).unwrap_or(&[]);
            let sizes = random(1 << 12) as usize * K4;
            let first = pieces.first().map_or(0, |&(address, _)| address);
            let virt = first.wrapping_add(random(4) << (12 + random(8)));
            let size = best(sizes, virt, pieces);
            assert_eq!(size, tried(sizes, virt, pieces));
            larger += u32::from(size > K4);
        }
        assert!(larger > 300);
    }
}
