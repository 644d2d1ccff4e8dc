// SPDX-License-Identifier: GPL-2.0

//! Types of memory regions and windows, and advice about them: `include/rdma/ib_verbs.h`,
//! `include/uapi/rdma/ib_user_ioctl_verbs.h`.

use rdma_bindings as bindings;

c_enum! {
    /// The type of an MR: `enum ib_mr_type`.
    pub enum MrType {
        /// For fast registration, of whole pages.
        MemReg = bindings::IB_MR_TYPE_MEM_REG,
        /// For fast registration, of any scatter list.
        SgGaps = bindings::IB_MR_TYPE_SG_GAPS,
        /// Device memory.
        Dm = bindings::IB_MR_TYPE_DM,
        /// User memory.
        User = bindings::IB_MR_TYPE_USER,
        /// All kernel memory.
        Dma = bindings::IB_MR_TYPE_DMA,
        /// With data integrity.
        Integrity = bindings::IB_MR_TYPE_INTEGRITY,
    }
}

c_enum! {
    /// The type of an MW: `enum ib_mw_type`.
    pub enum MwType {
        /// Bound by a verb, to a PD.
        Type1 = bindings::IB_MW_TYPE_1,
        /// Bound by a work request, to a QP.
        Type2 = bindings::IB_MW_TYPE_2,
    }
}

c_enum! {
    /// Advice about memory: `enum ib_uverbs_advise_mr_advice`.
    pub enum Advice {
        /// The memory will be read.
        Prefetch = bindings::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
        /// The memory will be written.
        PrefetchWrite = bindings::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
        /// The memory will be read; only pages that are present are prefetched.
        PrefetchNoFault = bindings::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
    }
}

c_flags! {
    /// Flags of advice: `enum ib_uverbs_advise_mr_flag`.
    pub struct AdviseFlags(u32) {
        /// The call returns after the advice is executed.
        FLUSH = bindings::IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    }
}
