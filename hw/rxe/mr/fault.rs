// SPDX-License-Identifier: GPL-2.0

//! Page faults of memory regions that are paged on demand: memory that is absent in softirq context is faulted in in process
//! context.

use core::ops::Range;
use kernel::prelude::*;
use kernel::sync::Arc;
use rdma::provider::odp;
use rdma::MaySleep;

use super::registration::Mr;

/// The maximum number of bytes of a message that are faulted in before they arrive.
const AHEAD: u32 = 1 << 18;

/// A fault also maps the pages within this many bytes from its start that are present in the process's page tables.
const AROUND: u64 = 1 << 21;

/// A part of a region that an access has found absent.
pub(crate) struct Fault {
    mr: Arc<Mr>,
    /// The offset in the region.
    at: u64,
    len: u32,
    /// The length of the part that will probably be accessed soon, at least `len`.
    ahead: u32,
    writes: bool,
}

impl Fault {
    pub(super) fn new(mr: Arc<Mr>, at: u64, len: u32, ahead: u32, writes: bool) -> Self {
        let left = u32::try_from(mr.length.saturating_sub(at)).unwrap_or(u32::MAX);
        let ahead = ahead.min(AHEAD).min(left).max(len);
        Self {
            mr,
            at,
            len,
            ahead,
            writes,
        }
    }

    fn range(&self) -> Range<u64> {
        self.at..self.at.saturating_add(self.len.into())
    }

    /// Whether an access to `other` fails after this fault has failed: their ranges overlap.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let (this, other_range) = (self.range(), other.range());
        Arc::ptr_eq(&self.mr, &other.mr)
            && this.start < other_range.end
            && other_range.start < this.end
            && (other.writes || !self.writes)
    }

    /// Faults the part in. It may be absent again when this returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the region is not registered any more, or its process has exited; `EFAULT` if the process has not mapped the
    /// memory with this access.
    pub(crate) fn resolve(&self, sleep: &MaySleep) -> Result {
        let umem = self.mr.paged().ok_or(EINVAL)?;
        let fault = match self.writes {
            true => odp::Fault::Write,
            false => odp::Fault::Read,
        };
        let at = usize::try_from(self.at)?;
        let ahead = umem.fault(at, self.ahead as usize, fault, sleep);
        ahead.or_else(|_| umem.fault(at, self.len as usize, fault, sleep))?;
        // Later accesses are probably near: without this, each page that the process has in memory would cause a fault of its own.
        let len = (self.mr.length.saturating_sub(self.at)).min(AROUND);
        let _ = umem.fault(at, len as usize, odp::Fault::Snapshot, sleep);
        Ok(())
    }
}
