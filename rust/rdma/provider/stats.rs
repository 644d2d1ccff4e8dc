// SPDX-License-Identifier: GPL-2.0

//! Counters of a port, in `rdma statistic` and `ports/N/hw_counters`: `struct rdma_hw_stats`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use kernel::prelude::*;
use rdma_bindings::{rdma_hw_stats, rdma_stat_desc};

/// The description of a counter: its name.
#[repr(transparent)]
pub struct StatDesc(rdma_stat_desc);

// SAFETY: A description is constant.
unsafe impl Sync for StatDesc {}
// SAFETY: A description is constant.
unsafe impl Send for StatDesc {}

impl StatDesc {
    /// Describes a counter named `name`.
    pub const fn new(name: &'static CStr) -> Self {
        Self(rdma_stat_desc {
            name: name.to_bytes_with_nul().as_ptr().cast(),
            ..pin_init::zeroed()
        })
    }

    pub(crate) const fn as_raw(descs: &'static [Self]) -> *const rdma_stat_desc {
        descs.as_ptr().cast()
    }
}

/// The values of counters, in the order of [`PORT_STATS`](crate::Provider::PORT_STATS).
pub struct HwStats<'a>(&'a mut [u64]);

impl HwStats<'_> {
    /// Borrows the values.
    ///
    /// # Safety
    ///
    /// `raw` must be valid, and its values must not be used otherwise, as long as the result
    /// exists.
    pub(crate) unsafe fn from_raw(raw: *mut rdma_hw_stats) -> Self {
        // SAFETY: By the safety requirements; the values follow the structure.
        unsafe {
            let count = usize::try_from((*raw).num_counters).unwrap_or(0);
            let values = (&raw mut (*raw).value).cast::<u64>();
            Self(core::slice::from_raw_parts_mut(values, count))
        }
    }

    /// Sets the counter at `index`; does nothing for an index out of range.
    pub fn set(&mut self, index: usize, value: u64) {
        if let Some(slot) = self.0.get_mut(index) {
            *slot = value;
        }
    }

    /// Sets all counters.
    pub fn set_all(&mut self, values: impl IntoIterator<Item = u64>) {
        for (slot, value) in self.0.iter_mut().zip(values) {
            *slot = value;
        }
    }
}
