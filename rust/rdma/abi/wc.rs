// SPDX-License-Identifier: GPL-2.0

//! Status, opcode and flags of work completions: `enum ib_wc_status`, `ib_wc_opcode` and `ib_wc_flags` of
//! `include/rdma/ib_verbs.h`.

use rdma_bindings as bindings;

c_enum! {
    /// The status of a work completion: `enum ib_wc_status`.
    pub enum WcStatus {
        /// The request has succeeded.
        Success = bindings::IB_WC_SUCCESS,
        /// The message does not fit the local buffers, or is longer than the port allows.
        LocLenErr = bindings::IB_WC_LOC_LEN_ERR,
        /// The QP could not execute the operation.
        LocQpOpErr = bindings::IB_WC_LOC_QP_OP_ERR,
        /// An end-to-end context could not execute the operation.
        LocEecOpErr = bindings::IB_WC_LOC_EEC_OP_ERR,
        /// A local buffer is not registered, or not for this access.
        LocProtErr = bindings::IB_WC_LOC_PROT_ERR,
        /// The QP entered the error state before the request was executed.
        WrFlushErr = bindings::IB_WC_WR_FLUSH_ERR,
        /// A memory window could not be bound.
        MwBindErr = bindings::IB_WC_MW_BIND_ERR,
        /// The responder has sent an unexpected response.
        BadRespErr = bindings::IB_WC_BAD_RESP_ERR,
        /// A remote write with immediate data failed in local memory.
        LocAccessErr = bindings::IB_WC_LOC_ACCESS_ERR,
        /// The responder has found the request invalid.
        RemInvReqErr = bindings::IB_WC_REM_INV_REQ_ERR,
        /// The request violates access rights at the responder.
        RemAccessErr = bindings::IB_WC_REM_ACCESS_ERR,
        /// The responder could not execute the operation.
        RemOpErr = bindings::IB_WC_REM_OP_ERR,
        /// The responder has not answered in time, and the retries are exhausted.
        RetryExcErr = bindings::IB_WC_RETRY_EXC_ERR,
        /// The responder was not ready to receive, and the RNR retries are exhausted.
        RnrRetryExcErr = bindings::IB_WC_RNR_RETRY_EXC_ERR,
        /// The reliable datagram domain does not match.
        LocRddViolErr = bindings::IB_WC_LOC_RDD_VIOL_ERR,
        /// The responder has found the reliable datagram invalid.
        RemInvRdReqErr = bindings::IB_WC_REM_INV_RD_REQ_ERR,
        /// The responder has aborted the operation.
        RemAbortErr = bindings::IB_WC_REM_ABORT_ERR,
        /// The end-to-end context's number is invalid.
        InvEecnErr = bindings::IB_WC_INV_EECN_ERR,
        /// The end-to-end context's state is wrong.
        InvEecStateErr = bindings::IB_WC_INV_EEC_STATE_ERR,
        /// The error cannot be attributed.
        FatalErr = bindings::IB_WC_FATAL_ERR,
        /// The responder has not answered in time.
        RespTimeoutErr = bindings::IB_WC_RESP_TIMEOUT_ERR,
        /// Any other error.
        GeneralErr = bindings::IB_WC_GENERAL_ERR,
    }
}

c_enum! {
    /// The opcode of a work completion: `enum ib_wc_opcode`. Not valid in a completion with an error.
    pub enum WcOpcode {
        /// A send.
        Send = bindings::IB_WC_SEND,
        /// An RDMA write.
        RdmaWrite = bindings::IB_WC_RDMA_WRITE,
        /// An RDMA read.
        RdmaRead = bindings::IB_WC_RDMA_READ,
        /// An atomic compare and swap.
        CompSwap = bindings::IB_WC_COMP_SWAP,
        /// An atomic fetch and add.
        FetchAdd = bindings::IB_WC_FETCH_ADD,
        /// The binding of a memory window.
        BindMw = bindings::IB_WC_BIND_MW,
        /// A local invalidation.
        LocalInv = bindings::IB_WC_LOCAL_INV,
        /// A large send, segmented by the device.
        Lso = bindings::IB_WC_LSO,
        /// An atomic write.
        AtomicWrite = bindings::IB_WC_ATOMIC_WRITE,
        /// A fast registration.
        RegMr = bindings::IB_WC_REG_MR,
        /// A masked atomic compare and swap.
        MaskedCompSwap = bindings::IB_WC_MASKED_COMP_SWAP,
        /// A masked atomic fetch and add.
        MaskedFetchAdd = bindings::IB_WC_MASKED_FETCH_ADD,
        /// A flush.
        Flush = bindings::IB_WC_FLUSH,
        /// A receive.
        Recv = bindings::IB_WC_RECV,
        /// A receive that an RDMA write with immediate data consumed.
        RecvRdmaWithImm = bindings::IB_WC_RECV_RDMA_WITH_IMM,
    }
}

c_flags! {
    /// The flags of a work completion: `enum ib_wc_flags`.
    pub struct WcFlags(u32) {
        /// A GRH lies in the first 40 bytes of the buffer.
        GRH = bindings::IB_WC_GRH;
        /// [`Wc::ex`] has immediate data, from which the flag is set.
        WITH_IMM = bindings::IB_WC_WITH_IMM;
        /// [`Wc::ex`] has an invalidated R_Key, from which the flag is set.
        WITH_INVALIDATE = bindings::IB_WC_WITH_INVALIDATE;
        /// The IP checksum is right.
        IP_CSUM_OK = bindings::IB_WC_IP_CSUM_OK;
        /// [`Wc::smac`] is valid.
        WITH_SMAC = bindings::IB_WC_WITH_SMAC;
        /// [`Wc::vlan_id`] is valid.
        WITH_VLAN = bindings::IB_WC_WITH_VLAN;
        /// [`Wc::network_hdr_type`] is valid.
        WITH_NETWORK_HDR_TYPE = bindings::IB_WC_WITH_NETWORK_HDR_TYPE;
    }
}
