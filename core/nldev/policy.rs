// SPDX-License-Identifier: GPL-2.0

//! Policies of the attributes `RDMA_NLDEV_*` in requests.
//!
//! C header: `include/uapi/rdma/rdma_netlink.h`.

use kernel_ext::{
    bindings::{self as c, *},
    net::netlink::Policy,
};

/// Number of attributes, including that with number 0.
pub(super) const COUNT: usize = RDMA_NLDEV_ATTR_MAX as usize;

const NAME: u16 = IB_DEVICE_NAME_MAX as u16;
const IFNAME: u16 = IFNAMSIZ as u16;
const CHARDEV: u16 = RDMA_NLDEV_ATTR_CHARDEV_TYPE_SIZE as u16;
/// Maximum length of strings that only the kernel sends: one byte.
const EMPTY: u16 = RDMA_NLDEV_ATTR_EMPTY_STRING as u16;
const ADDRESS: u16 = core::mem::size_of::<c::__kernel_sockaddr_storage>() as u16;

const fn numbers(table: &mut [Policy; COUNT], kind: u32, attrs: &[u32]) {
    let mut nth = 0;
    while nth < attrs.len() {
        table[attrs[nth] as usize] = Policy::new(kind, 0);
        nth += 1;
    }
}

const fn strings(table: &mut [Policy; COUNT], attrs: &[(u32, u16)]) {
    let mut nth = 0;
    while nth < attrs.len() {
        let (attr, len) = attrs[nth];
        table[attr as usize] = Policy::new(NLA_NUL_STRING, len);
        nth += 1;
    }
}

/// Policies by attribute number.
pub(super) static TABLE: [Policy; COUNT] = {
    let mut table = [const { Policy::NONE }; COUNT];
    numbers(
        &mut table,
        NLA_U8,
        &[
            RDMA_NLDEV_ATTR_DEV_DIM,
            RDMA_NLDEV_ATTR_DEV_NODE_TYPE,
            RDMA_NLDEV_ATTR_DEV_TYPE,
            RDMA_NLDEV_ATTR_DRIVER_DETAILS,
            RDMA_NLDEV_ATTR_DRIVER_PRINT_TYPE,
            RDMA_NLDEV_ATTR_EVENT_TYPE,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ATS,
            RDMA_NLDEV_ATTR_LMC,
            RDMA_NLDEV_ATTR_NAME_ASSIGN_TYPE,
            RDMA_NLDEV_ATTR_PORT_PHYS_STATE,
            RDMA_NLDEV_ATTR_PORT_STATE,
            RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE,
            RDMA_NLDEV_ATTR_RES_POLL_CTX,
            RDMA_NLDEV_ATTR_RES_STATE,
            RDMA_NLDEV_ATTR_RES_TYPE,
            RDMA_NLDEV_ATTR_STAT_HWCOUNTER_DYNAMIC,
            RDMA_NLDEV_ATTR_STAT_OPCOUNTER_ENABLED,
            RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK,
            RDMA_NLDEV_SYS_ATTR_NETNS_MODE,
            RDMA_NLDEV_SYS_ATTR_PRIVILEGED_QKEY_MODE,
        ],
    );
    numbers(
        &mut table,
        NLA_U32,
        &[
            RDMA_NLDEV_ATTR_DEV_INDEX,
            RDMA_NLDEV_ATTR_DRIVER_U32,
            RDMA_NLDEV_ATTR_FRMR_POOLS_AGING_PERIOD,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY_ACCESS_FLAGS,
            RDMA_NLDEV_ATTR_FRMR_POOL_PINNED_HANDLES,
            RDMA_NLDEV_ATTR_FRMR_POOL_QUEUE_HANDLES,
            RDMA_NLDEV_ATTR_LID,
            RDMA_NLDEV_ATTR_MAX_RANGE,
            RDMA_NLDEV_ATTR_MIN_RANGE,
            RDMA_NLDEV_ATTR_NDEV_INDEX,
            RDMA_NLDEV_ATTR_PORT_INDEX,
            RDMA_NLDEV_ATTR_RES_CM_IDN,
            RDMA_NLDEV_ATTR_RES_CQE,
            RDMA_NLDEV_ATTR_RES_CQN,
            RDMA_NLDEV_ATTR_RES_CTXN,
            RDMA_NLDEV_ATTR_RES_LKEY,
            RDMA_NLDEV_ATTR_RES_LOCAL_DMA_LKEY,
            RDMA_NLDEV_ATTR_RES_LQPN,
            RDMA_NLDEV_ATTR_RES_MRN,
            RDMA_NLDEV_ATTR_RES_PDN,
            RDMA_NLDEV_ATTR_RES_PID,
            RDMA_NLDEV_ATTR_RES_PS,
            RDMA_NLDEV_ATTR_RES_RKEY,
            RDMA_NLDEV_ATTR_RES_RQPN,
            RDMA_NLDEV_ATTR_RES_RQ_PSN,
            RDMA_NLDEV_ATTR_RES_SQ_PSN,
            RDMA_NLDEV_ATTR_RES_SRQN,
            RDMA_NLDEV_ATTR_RES_UNSAFE_GLOBAL_RKEY,
            RDMA_NLDEV_ATTR_SM_LID,
            RDMA_NLDEV_ATTR_STAT_AUTO_MODE_MASK,
            RDMA_NLDEV_ATTR_STAT_COUNTER_ID,
            RDMA_NLDEV_ATTR_STAT_HWCOUNTER_INDEX,
            RDMA_NLDEV_ATTR_STAT_MODE,
            RDMA_NLDEV_ATTR_STAT_RES,
            RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID,
            RDMA_NLDEV_NET_NS_FD,
        ],
    );
    numbers(
        &mut table,
        NLA_U64,
        &[
            RDMA_NLDEV_ATTR_CHARDEV_ABI,
            RDMA_NLDEV_ATTR_DRIVER_U64,
            RDMA_NLDEV_ATTR_FRMR_POOL_IN_USE,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY_KERNEL_VENDOR_KEY,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY_NUM_DMA_BLOCKS,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY_VENDOR_KEY,
            RDMA_NLDEV_ATTR_FRMR_POOL_MAX_IN_USE,
            RDMA_NLDEV_ATTR_CHARDEV,
            RDMA_NLDEV_ATTR_NODE_GUID,
            RDMA_NLDEV_ATTR_RES_IOVA,
            RDMA_NLDEV_ATTR_RES_MRLEN,
            RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR,
            RDMA_NLDEV_ATTR_RES_USECNT,
            RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE,
            RDMA_NLDEV_ATTR_SUBNET_PREFIX,
            RDMA_NLDEV_ATTR_SYS_IMAGE_GUID,
        ],
    );
    numbers(&mut table, NLA_S32, &[RDMA_NLDEV_ATTR_DRIVER_S32]);
    numbers(&mut table, NLA_S64, &[RDMA_NLDEV_ATTR_DRIVER_S64]);
    numbers(
        &mut table,
        NLA_NESTED,
        &[
            RDMA_NLDEV_ATTR_DRIVER,
            RDMA_NLDEV_ATTR_DRIVER_ENTRY,
            RDMA_NLDEV_ATTR_FRMR_POOLS,
            RDMA_NLDEV_ATTR_FRMR_POOL_ENTRY,
            RDMA_NLDEV_ATTR_FRMR_POOL_KEY,
            RDMA_NLDEV_ATTR_RES_CM_ID,
            RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY,
            RDMA_NLDEV_ATTR_RES_CQ,
            RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
            RDMA_NLDEV_ATTR_RES_CTX,
            RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
            RDMA_NLDEV_ATTR_RES_MR,
            RDMA_NLDEV_ATTR_RES_MR_ENTRY,
            RDMA_NLDEV_ATTR_RES_PD,
            RDMA_NLDEV_ATTR_RES_PD_ENTRY,
            RDMA_NLDEV_ATTR_RES_QP,
            RDMA_NLDEV_ATTR_RES_QP_ENTRY,
            RDMA_NLDEV_ATTR_RES_SRQ,
            RDMA_NLDEV_ATTR_RES_SRQ_ENTRY,
            RDMA_NLDEV_ATTR_RES_SUMMARY,
            RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY,
            RDMA_NLDEV_ATTR_STAT_COUNTER,
            RDMA_NLDEV_ATTR_STAT_COUNTER_ENTRY,
            RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
            RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY,
        ],
    );
    numbers(&mut table, NLA_BINARY, &[RDMA_NLDEV_ATTR_RES_RAW]);
    strings(
        &mut table,
        &[
            (RDMA_NLDEV_ATTR_CHARDEV_NAME, EMPTY),
            (RDMA_NLDEV_ATTR_CHARDEV_TYPE, CHARDEV),
            (RDMA_NLDEV_ATTR_DEV_NAME, NAME),
            (RDMA_NLDEV_ATTR_DEV_PROTOCOL, EMPTY),
            (RDMA_NLDEV_ATTR_DRIVER_STRING, EMPTY),
            (RDMA_NLDEV_ATTR_FW_VERSION, EMPTY),
            (RDMA_NLDEV_ATTR_LINK_TYPE, IFNAME),
            (RDMA_NLDEV_ATTR_NDEV_NAME, IFNAME),
            (RDMA_NLDEV_ATTR_PARENT_NAME, 0),
            (RDMA_NLDEV_ATTR_RES_KERN_NAME, EMPTY),
            (RDMA_NLDEV_ATTR_RES_SUBTYPE, EMPTY),
            (RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, EMPTY),
            (RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, 0),
        ],
    );
    table[RDMA_NLDEV_ATTR_RES_DST_ADDR as usize] = Policy::new(NLA_UNSPEC, ADDRESS);
    table[RDMA_NLDEV_ATTR_RES_SRC_ADDR as usize] = Policy::new(NLA_UNSPEC, ADDRESS);
    table
};
