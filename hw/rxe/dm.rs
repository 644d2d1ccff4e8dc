// SPDX-License-Identifier: GPL-2.0

//! Memory of a device that programs allocate, `struct ib_dm` of `<rdma/ib_verbs.h>`: they reach it by the keys of regions alone.
//!
//! A device has as much as the module parameter `device_memory` said when it was made: by default none, for rdma-core's driver has
//! no `ibv_alloc_dm`.

use core::sync::atomic::{AtomicU64, Ordering};
use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel_ext::compat::module_param;
use kernel_ext::shared::SharedMem;
use rdma::provider::dm::DmAttr;
use rdma::MaySleep;

/// The memory of a device, of which programs get whole pages.
pub(crate) struct Pool {
    /// In bytes.
    size: u64,
    used: AtomicU64,
}

impl Pool {
    /// The memory of a new device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Arc<Self>> {
        let kib = module_param::value(&crate::module_parameters::device_memory);
        let whole_pages = |bytes: u64| bytes & !(PAGE_SIZE as u64 - 1);
        let pool = Self {
            size: whole_pages(u64::from(kib) << 10),
            used: AtomicU64::new(0),
        };
        Ok(Arc::new(pool, GFP_KERNEL)?)
    }

    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Takes `len` bytes.
    fn take(self: &Arc<Self>, len: u64) -> Option<Share> {
        let more = |used: u64| used.checked_add(len).filter(|&used| used <= self.size);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Share {
            pool: self.clone(),
            len,
        })
    }
}

/// A part of a device's memory, which is given back when it is dropped.
struct Share {
    pool: Arc<Pool>,
    len: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.used.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// Memory that a program has allocated.
pub(crate) struct Dm {
    // Freed before it counts as free.
    memory: SharedMem,
    _share: Share,
}

impl Dm {
    /// Allocates zeroed memory.
    ///
    /// # Errors
    ///
    /// `EINVAL` for no bytes, and an alignment of more than a page; `ENOMEM` where the device has less left.
    pub(crate) fn new(pool: &Arc<Pool>, attr: &DmAttr, sleep: &MaySleep) -> Result<Arc<Self>> {
        if attr.length == 0 || attr.alignment > PAGE_SIZE.trailing_zeros() {
            return Err(EINVAL);
        }
        let whole = attr.length.checked_next_multiple_of(PAGE_SIZE as u64);
        let share = whole.and_then(|len| pool.take(len)).ok_or(ENOMEM)?;
        let dm = Self {
            memory: SharedMem::new(usize::try_from(share.len)?, sleep)?,
            _share: share,
        };
        Ok(Arc::new(dm, GFP_KERNEL)?)
    }

    /// The memory: whole pages.
    #[inline]
    pub(crate) fn memory(&self) -> &SharedMem {
        &self.memory
    }
}
