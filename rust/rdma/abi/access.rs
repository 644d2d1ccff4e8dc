// SPDX-License-Identifier: GPL-2.0

//! Access rights of memory: `enum ib_access_flags` of `include/rdma/ib_verbs.h`.

use rdma_bindings as bindings;

c_flags! {
    /// The access that a region permits: `enum ib_access_flags`.
    pub struct Access(u32) {
        /// The device may write.
        LOCAL_WRITE = bindings::IB_ACCESS_LOCAL_WRITE;
        /// Remote peers may write.
        REMOTE_WRITE = bindings::IB_ACCESS_REMOTE_WRITE;
        /// Remote peers may read.
        REMOTE_READ = bindings::IB_ACCESS_REMOTE_READ;
        /// Remote peers may execute atomic operations.
        REMOTE_ATOMIC = bindings::IB_ACCESS_REMOTE_ATOMIC;
        /// Windows may be bound.
        MW_BIND = bindings::IB_ACCESS_MW_BIND;
        /// Addresses are offsets from the start of the region.
        ZERO_BASED = bindings::IB_ZERO_BASED;
        /// Pages are faulted in when they are needed.
        ON_DEMAND = bindings::IB_ACCESS_ON_DEMAND;
        /// The memory consists of huge pages.
        HUGETLB = bindings::IB_ACCESS_HUGETLB;
        /// Writes may be reordered (PCIe relaxed ordering).
        RELAXED_ORDERING = bindings::IB_ACCESS_RELAXED_ORDERING;
        /// Remote peers may flush to global visibility.
        FLUSH_GLOBAL = bindings::IB_ACCESS_FLUSH_GLOBAL;
        /// Remote peers may flush to persistence.
        FLUSH_PERSISTENT = bindings::IB_ACCESS_FLUSH_PERSISTENT;
        /// The flags that a device may ignore.
        OPTIONAL = bindings::IB_ACCESS_OPTIONAL;
    }
}

impl Access {
    /// Whether the device writes to the memory: `ib_access_writable`.
    #[inline]
    pub const fn is_writable(self) -> bool {
        const WRITES: Access = Access::LOCAL_WRITE
            .with(Access::REMOTE_WRITE)
            .with(Access::REMOTE_ATOMIC)
            .with(Access::MW_BIND);
        self.intersects(WRITES)
    }
}
