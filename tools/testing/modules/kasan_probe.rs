// SPDX-License-Identifier: GPL-2.0

//! Invalid memory accesses on purpose: a check that KASAN detects them in Rust code of modules that are built as ours are.
//!
//! Built with `FERROBAND_TESTS=m` for a kernel that has KASAN; tools/testing/selftests/common/kasan.sh loads it and looks for the
//! reports, one for each function here.

use core::ptr;

use kernel::prelude::*;

module! {
    type: Probe,
    name: "kasan_probe",
    authors: ["Ferroband"],
    description: "Accesses memory that it must not access",
    license: "GPL",
}

type Block = [u8; 96];

fn block() -> Result<KBox<Block>> {
    Ok(KBox::new([7; 96], GFP_KERNEL)?)
}

#[inline(never)]
fn kasan_probe_reads_beyond_the_end() -> Result {
    let block = block()?;
    let begin: *const u8 = (&raw const *block).cast();
    // SAFETY: None: this is the fault that is wanted. It reads what the allocator added to the block.
    unsafe { begin.add(size_of::<Block>()).read_volatile() };
    Ok(())
}

#[inline(never)]
fn kasan_probe_writes_after_free() -> Result {
    let block = KBox::into_raw(block()?);
    // SAFETY: It comes from `into_raw`. The write after that has no excuse but that it is wanted; nothing else of the
    // kernel's may have got the block so soon, for KASAN keeps it back.
    unsafe {
        drop(KBox::from_raw(block));
        block.cast::<u8>().write_volatile(1);
    }
    Ok(())
}

#[inline(never)]
fn kasan_probe_copies_too_much() -> Result {
    let source = block()?;
    let mut target = [0u8; 2 * size_of::<Block>()];
    // Opaque, so that this stays a call of memcpy.
    let length = core::hint::black_box(size_of::<Block>() + 8);
    // SAFETY: None for the source, of which too much is read; the target is large enough.
    unsafe {
        ptr::copy_nonoverlapping(
            (&raw const *source).cast::<u8>(),
            target.as_mut_ptr(),
            length,
        )
    };
    core::hint::black_box(&target);
    Ok(())
}

struct Probe;

impl kernel::Module for Probe {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        kasan_probe_reads_beyond_the_end()?;
        kasan_probe_writes_after_free()?;
        kasan_probe_copies_too_much()?;
        Ok(Self)
    }
}
