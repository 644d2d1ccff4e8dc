// SPDX-License-Identifier: GPL-2.0

//! The C entry points of the methods of a [`Provider`], and their table, `struct ib_device_ops`.
//!
//! Each C entry point relies on the contract of `struct ib_device_ops`, which the core fulfils. This
//! *contract of the table* is the proof of its unsafe conversions:
//!
//! * Pointers to objects are those of objects of a device of `P`, because only such devices get the table
//!   ([`Device::alloc`](crate::Device::alloc)). For a create method the object is newly allocated with the
//!   size in the table; for other methods the create entry point here has succeeded. The object is not
//!   destroyed while the method runs, and not used after it was destroyed.
//! * Pointers to attributes are valid, and the method has exclusive access to them.
//! * `udata` is null for a client in the kernel, else the driver's part of a command.
//! * A counter was allocated and zeroed with the size in the table. Its lock is held while a QP is bound to it or unbound, and while
//!   its values are updated. Its first binding is its create method, and its values are updated only after one.
//! * Methods whose entry point makes a [`MaySleep`](crate::MaySleep) token are called in process context.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::{marker::PhantomData, ptr, ptr::NonNull};

use kernel::{ffi::c_int, prelude::*};
use rdma_bindings::ib_device_ops;

use crate::{
    provider::{counter::Counter, xrcd::Xrcd},
    Ah, Cq, Mw, Pd, Provider, Qp, Srq, Ucontext,
};

mod counter;
mod device;
mod memory;
mod queue;

/// The table of the C entry points of `P`.
pub(crate) struct ProviderOps<P>(PhantomData<P>);

/// Converts a result to 0 or a negative errno.
#[inline]
fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(err) => err.to_errno(),
    }
}

/// Converts a result to a pointer or an errno in it (`ERR_PTR`).
#[inline]
fn err_ptr<T>(result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|err| err.to_ptr())
}

/// The `close` function of an object without handlers.
fn no_handler(_: &()) {}

/// Converts an object's pointer, which is not null.
fn not_null<T>(raw: *mut T) -> Result<NonNull<T>> {
    NonNull::new(raw).ok_or(EINVAL)
}

/// The C entry point of a method, or `None` if the driver lacks the method.
macro_rules! entry {
    ($has:ident, $entry:expr) => {
        if P::$has {
            Some($entry)
        } else {
            None
        }
    };
}

impl<P: Provider> ProviderOps<P> {
    /// The table without the owner, which is not a constant.
    pub(crate) const OPS: ib_device_ops = ib_device_ops {
        driver_id: P::DRIVER_ID.number(),
        uverbs_abi_ver: P::ABI_VERSION,
        device_group: match P::DEVICE_GROUP {
            Some(group) => group.as_raw(),
            None => ptr::null(),
        },

        query_device: Some(Self::query_device),
        query_port: Some(Self::query_port),
        get_port_immutable: Some(Self::get_port_immutable),
        get_link_layer: entry!(HAS_GET_LINK_LAYER, Self::get_link_layer),
        query_pkey: entry!(HAS_QUERY_PKEY, Self::query_pkey),
        query_gid: entry!(HAS_QUERY_GID, Self::query_gid),
        add_gid: entry!(HAS_ADD_GID, Self::add_gid),
        del_gid: entry!(HAS_DEL_GID, Self::del_gid),
        get_dev_fw_str: entry!(HAS_GET_DEV_FW_STR, Self::get_dev_fw_str),
        modify_device: entry!(HAS_MODIFY_DEVICE, Self::modify_device),
        modify_port: entry!(HAS_MODIFY_PORT, Self::modify_port),
        enable_driver: entry!(HAS_ENABLE_DRIVER, Self::enable_driver),
        dealloc_driver: Some(Self::dealloc_driver),
        process_mad: entry!(HAS_PROCESS_MAD, Self::process_mad),
        alloc_hw_port_stats: entry!(HAS_GET_HW_STATS, Self::alloc_hw_port_stats),
        get_hw_stats: entry!(HAS_GET_HW_STATS, Self::get_hw_stats),

        alloc_ucontext: entry!(HAS_ALLOC_UCONTEXT, Self::alloc_ucontext),
        dealloc_ucontext: entry!(HAS_ALLOC_UCONTEXT, Self::dealloc_ucontext),
        disassociate_ucontext: entry!(HAS_DISASSOCIATE_UCONTEXT, Self::disassociate_ucontext),
        mmap: entry!(HAS_MMAP, Self::mmap),
        alloc_pd: Some(Self::alloc_pd),
        dealloc_pd: Some(Self::dealloc_pd),

        alloc_xrcd: entry!(HAS_ALLOC_XRCD, Self::alloc_xrcd),
        dealloc_xrcd: entry!(HAS_ALLOC_XRCD, Self::dealloc_xrcd),

        create_ah: entry!(HAS_CREATE_AH, Self::create_ah),
        create_user_ah: entry!(HAS_CREATE_AH, Self::create_ah),
        modify_ah: entry!(HAS_MODIFY_AH, Self::modify_ah),
        query_ah: entry!(HAS_QUERY_AH, Self::query_ah),
        destroy_ah: entry!(HAS_CREATE_AH, Self::destroy_ah),

        create_cq: Some(Self::create_cq),
        resize_user_cq: entry!(HAS_RESIZE_CQ, Self::resize_user_cq),
        modify_cq: entry!(HAS_MODIFY_CQ, Self::modify_cq),
        pre_destroy_cq: Some(Self::pre_destroy_cq),
        destroy_cq: Some(Self::destroy_cq),
        poll_cq: entry!(HAS_POLL_CQ, Self::poll_cq),
        peek_cq: entry!(HAS_PEEK_CQ, Self::peek_cq),
        req_notify_cq: entry!(HAS_REQ_NOTIFY_CQ, Self::req_notify_cq),

        create_qp: Some(Self::create_qp),
        modify_qp: entry!(HAS_MODIFY_QP, Self::modify_qp),
        query_qp: entry!(HAS_QUERY_QP, Self::query_qp),
        destroy_qp: Some(Self::destroy_qp),
        post_send: entry!(HAS_POST_SEND, Self::post_send),
        post_recv: entry!(HAS_POST_RECV, Self::post_recv),
        attach_mcast: entry!(HAS_ATTACH_MCAST, Self::attach_mcast),
        detach_mcast: entry!(HAS_DETACH_MCAST, Self::detach_mcast),

        counter_alloc_stats: entry!(HAS_COUNTER_ALLOC, Self::counter_alloc_stats),
        counter_init: entry!(HAS_COUNTER_ALLOC, Self::counter_init),
        counter_bind_qp: entry!(HAS_COUNTER_ALLOC, Self::counter_bind_qp),
        counter_unbind_qp: entry!(HAS_COUNTER_ALLOC, Self::counter_unbind_qp),
        counter_update_stats: entry!(HAS_COUNTER_ALLOC, Self::counter_update_stats),
        counter_dealloc: entry!(HAS_COUNTER_ALLOC, Self::counter_dealloc),

        create_srq: entry!(HAS_CREATE_SRQ, Self::create_srq),
        modify_srq: entry!(HAS_MODIFY_SRQ, Self::modify_srq),
        query_srq: entry!(HAS_QUERY_SRQ, Self::query_srq),
        destroy_srq: entry!(HAS_CREATE_SRQ, Self::destroy_srq),
        post_srq_recv: entry!(HAS_POST_SRQ_RECV, Self::post_srq_recv),

        get_dma_mr: entry!(HAS_GET_DMA_MR, Self::get_dma_mr),
        reg_user_mr: entry!(HAS_REG_USER_MR, Self::reg_user_mr),
        reg_user_mr_dmabuf: entry!(HAS_REG_USER_MR_DMABUF, Self::reg_user_mr_dmabuf),
        rereg_user_mr: entry!(HAS_REREG_USER_MR, Self::rereg_user_mr),
        dereg_mr: Some(Self::dereg_mr),
        alloc_mr: entry!(HAS_ALLOC_MR, Self::alloc_mr),
        map_mr_sg: entry!(HAS_MAP_MR_SG, Self::map_mr_sg),
        advise_mr: entry!(HAS_ADVISE_MR, Self::advise_mr),
        alloc_mw: entry!(HAS_ALLOC_MW, Self::alloc_mw),
        dealloc_mw: entry!(HAS_ALLOC_MW, Self::dealloc_mw),

        size_ib_ah: Ah::<P>::SIZE,
        size_ib_cq: Cq::<P>::SIZE,
        size_ib_mw: Mw::<P>::SIZE,
        size_ib_pd: Pd::<P>::SIZE,
        size_ib_qp: Qp::<P>::SIZE,
        size_ib_srq: Srq::<P>::SIZE,
        size_ib_ucontext: Ucontext::<P>::SIZE,
        size_ib_xrcd: Xrcd::<P>::SIZE,
        size_rdma_counter: Counter::<P>::SIZE,
        ..pin_init::zeroed()
    };

    /// The methods of device memory, for devices that have some.
    pub(crate) const DEVICE_MEMORY: ib_device_ops = ib_device_ops {
        alloc_dm: entry!(HAS_ALLOC_DM, Self::alloc_dm),
        dealloc_dm: entry!(HAS_ALLOC_DM, Self::dealloc_dm),
        reg_dm_mr: entry!(HAS_ALLOC_DM, Self::reg_dm_mr),
        ..pin_init::zeroed()
    };
}
