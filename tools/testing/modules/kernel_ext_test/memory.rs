// SPDX-License-Identifier: GPL-2.0

//! Memory and pages that are shared with concurrent writers, and the CRC-32.

use super::*;
use core::ptr::NonNull;
use kernel::alloc::flags::__GFP_NOWARN;
use kernel::bindings;
use kernel::ffi::{c_int, c_ulong, c_void};
use kernel::page::{Page, PAGE_SIZE};
use kernel_ext::{
    crc32::{crc32_le, Start},
    page::SharedPage,
    room::Room,
    shared::SharedMem,
    shared_bytes::SharedBytes,
    zeroed::zeroed,
};

pub(super) fn test(may_sleep: &MaySleep) -> Result {
    rings(may_sleep)?;
    pages()?;
    check!(!crc32_le(!0, b"123456789".as_slice().into()) == 0xcbf4_3926);
    sums()?;
    parts()?;
    allocations()?;
    Ok(())
}

/// The type of the kernel crate's function for allocating, which `rust/helpers/slab.c` defines: a kernel where it has another one does
/// not compile this.
const _: unsafe extern "C" fn(
    *const c_void,
    usize,
    c_ulong,
    bindings::gfp_t,
    c_int,
) -> *mut c_void = bindings::krealloc_node_align;

/// Memory is allocated, resized and freed by `rust/helpers/slab.c`: it keeps its bytes, is zeroed where that is asked for, and has the
/// alignment of its type.
fn allocations() -> Result {
    #[repr(align(256))]
    struct Aligned([u8; 3]);

    let mut bytes = KVec::<u8>::new();
    for number in 0..5000u32 {
        bytes.push(number as u8, GFP_KERNEL)?;
    }
    check!(bytes
        .iter()
        .zip(0u32..)
        .all(|(byte, number)| *byte == number as u8));
    let zeros: KVec<u8> = zeroed(3000, GFP_KERNEL)?;
    check!(zeros.len() == 3000 && zeros.iter().all(|byte| *byte == 0));
    let aligned = KBox::new(Aligned([1, 2, 3]), GFP_KERNEL)?;
    check!(core::ptr::from_ref(&*aligned).addr() % 256 == 0 && aligned.0 == [1, 2, 3]);
    check!(KVec::<u64>::with_capacity(1 << 37, GFP_KERNEL | __GFP_NOWARN).is_err());
    Ok(())
}

/// The CRC-32 of bytes, by a few at a time.
fn crc32_by_few(state: u32, bytes: &[u8]) -> u32 {
    bytes
        .chunks(64)
        .fold(state, |state, few| crc32_le(state, few.into()))
}

/// The CRC-32 of what is written to a [`Room`] is that of its bytes, for each length up to some strides of the vector instructions.
fn sums() -> Result {
    const LEN: usize = 1024;
    let (mut from, mut number) = (KVec::<u8>::from_elem(0, LEN, GFP_KERNEL)?, 1u32);
    for byte in &mut from {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (number >> 24) as u8;
    }
    let mut to = KVec::<u8>::from_elem(0, LEN + 1, GFP_KERNEL)?;
    for len in 0..LEN - 3 {
        let front = len % 4;
        let last = to.get(front + len).copied();
        let bytes = from.get(front..front + len).ok_or(EINVAL)?;
        let place = to.get_mut(..front + len).ok_or(EINVAL)?;
        let mut room = Room::over(place);
        check!(room.write(&[7; 3][..front]).is_ok());
        room.start_sum(Start::State(!0));
        check!(
            room.write_shared(bytes.into()).is_ok()
                && room.write_shared(bytes.into()).is_err() == (len != 0)
        );
        let expected = crc32_by_few(!0, bytes);
        check!(room.sum() == expected && room.bytes().ends_with(bytes));
        check!(crc32_le(!0, bytes.into()) == expected);
        check!(to.get(front + len).copied() == last);
        let mut room = Room::over(&mut to);
        room.start_sum(Start::Block([5; 16]));
        check!(room.write_shared(bytes.into()).is_ok() && room.bytes() == bytes);
        let state = crc32_le(0, [5; 16].as_slice().into());
        check!(room.sum() == crc32_by_few(state, bytes));
    }
    let mut room = Room::over(&mut to);
    room.start_sum(Start::State(1));
    check!(room.write(b"ab").is_ok() && room.write_shared(b"cde".as_slice().into()).is_ok());
    check!(room.sum() == crc32_le(1, b"abcde".as_slice().into()) && room.sum() == room.sum());
    Ok(())
}

fn parts() -> Result {
    let bytes = SharedBytes::from(b"123456789".as_slice());
    let part = bytes.get(1..4).ok_or(EINVAL)?;
    let mut copied = [0; 3];
    check!(part.len() == 3 && part.copy_to(&mut copied).is_ok() && copied == *b"234");
    check!(part.copy_to(&mut [0; 2]) == Err(EINVAL) && part.copy_to(&mut [0; 4]) == Err(EINVAL));
    check!(bytes.get(9..9).is_some_and(|none| none.is_empty()));
    for (start, end) in [(9, 10), (4, 3), (usize::MAX, 0), (0, usize::MAX)] {
        check!(bytes.get(start..end).is_none());
    }
    compared()
}

/// Arrays at any alignment, of whole words or not.
fn compared() -> Result {
    let numbers: [u8; 16] = core::array::from_fn(|at| at as u8);
    for start in 0..4 {
        let whole = SharedBytes::from(numbers.as_slice());
        let words = whole.get(start..start + 8).ok_or(EINVAL)?;
        let odd = whole.get(start..start + 7).ok_or(EINVAL)?;
        let (mut eight, mut seven) = ([0; 8], [0; 7]);
        check!(
            words.copy_to_array(&mut eight).is_some() && odd.copy_to_array(&mut seven).is_some()
        );
        check!(eight == core::array::from_fn(|at| (start + at) as u8) && seven == eight[..7]);
        check!(words.copy_to_array(&mut seven).is_none() && words.array() == Some(eight));
        check!(words.is(&eight) && odd.is(&seven) && !words.is(&seven) && !odd.is(&eight));
        for at in 0..7 {
            let (mut other, mut shorter) = (eight, seven);
            other[at + 1] ^= 1;
            shorter[at] ^= 1;
            check!(!words.is(&other) && !odd.is(&shorter));
        }
    }
    Ok(())
}

fn rings(may_sleep: &MaySleep) -> Result {
    let memory = SharedMem::new(PAGE_SIZE + 1, may_sleep)?;
    let len = memory.len();
    check!(len == 2 * PAGE_SIZE);
    check!(memory.load_acquire_u32(len - 4) == Some(0));
    for outside in [len - 3, len, usize::MAX, 2] {
        check!(memory.load_acquire_u32(outside).is_none());
    }
    check!(memory.store_release_u32(4, 7).is_some() && memory.snapshot::<u64>(0) == Some(7 << 32));
    check!(memory.write(len - 8, &1u64).is_some() && memory.write(len - 4, &1u64).is_none());
    let mut bytes = [0; 4];
    check!(memory.copy_out(4, &mut bytes).is_some() && bytes == [7, 0, 0, 0]);
    check!(memory.copy_in(len - 2, &[1, 2, 3]).is_none());
    check!(SharedMem::new(usize::MAX, may_sleep).is_err() && SharedMem::new(0, may_sleep).is_err());
    Ok(())
}

fn pages() -> Result {
    let page = Page::alloc_page(GFP_KERNEL)?;
    let raw = NonNull::new(page.as_ptr()).ok_or(EINVAL)?;
    // SAFETY: The page is ours, and outlives its use.
    let shared = unsafe { SharedPage::from_raw(raw.cast()) };
    check!(shared.write(PAGE_SIZE - 5, b"hello").is_ok());
    check!(shared.write(PAGE_SIZE - 4, b"hello") == Err(EINVAL));
    check!(shared.write(usize::MAX, b"hello") == Err(EINVAL));
    let mut bytes = [0; 5];
    check!(shared.read(PAGE_SIZE - 5, &mut bytes).is_ok() && &bytes == b"hello");
    shared.store_u64(8, u64::MAX)?;
    check!(shared.fetch_add_u64(8, 43) == Ok(u64::MAX));
    check!(shared.compare_exchange_u64(8, 42, 1) == Ok(42));
    check!(shared.compare_exchange_u64(8, 42, 2) == Ok(1) && shared.fetch_add_u64(8, 0) == Ok(1));
    check!(shared.fetch_add_u64(4, 0) == Err(EINVAL));
    check!(shared.fetch_add_u64(PAGE_SIZE, 0) == Err(EINVAL));
    Ok(())
}
