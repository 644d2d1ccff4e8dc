// SPDX-License-Identifier: GPL-2.0

//! The write commands, one file an object class.
//!
//! A command is a function from a typed request to a typed response. The table has the commands, and the method that a driver
//! must have for each.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use core::mem::offset_of;

use kernel_ext::bindings as c;
use rdma_uverbs::{
    request::{
        command, command_with_udata, custom, custom_extended, custom_with_udata, extended, query,
        query_extended,
    },
    table::Definition,
};

mod ah;
mod context;
mod cq;
mod data;
pub(crate) mod device;
mod flow;
mod mr;
mod mw;
mod pd;
mod qp;
mod qp_attr;
mod srq;
mod wq;
pub(crate) mod xrcd;

/// A condition: the preceding command requires a method of the driver.
macro_rules! needs {
    ($method:ident) => {
        Definition::method_needs(offset_of!(c::ib_device_ops, $method))
    };
}

/// A condition: the preceding object class, with all its commands, requires a method of the driver.
macro_rules! class_needs {
    ($method:ident) => {
        Definition::object_needs(offset_of!(c::ib_device_ops, $method))
    };
}

/// The definitions of all write commands.
pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition::object_start(c::UVERBS_OBJECT_AH),
    command_with_udata(c::IB_USER_VERBS_CMD_CREATE_AH, ah::create),
    command(c::IB_USER_VERBS_CMD_DESTROY_AH, ah::destroy),
    class_needs!(create_user_ah),
    class_needs!(destroy_ah),
    Definition::object_start(c::UVERBS_OBJECT_COMP_CHANNEL),
    command(c::IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, cq::create_channel),
    Definition::object_start(c::UVERBS_OBJECT_CQ),
    command_with_udata(c::IB_USER_VERBS_CMD_CREATE_CQ, cq::create),
    needs!(create_cq),
    command(c::IB_USER_VERBS_CMD_DESTROY_CQ, cq::destroy),
    needs!(destroy_cq),
    custom::<c::ib_uverbs_poll_cq, c::ib_uverbs_poll_cq_resp, _>(
        c::IB_USER_VERBS_CMD_POLL_CQ,
        data::poll_cq,
    ),
    needs!(poll_cq),
    command(c::IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, cq::req_notify),
    needs!(req_notify_cq),
    command_with_udata(c::IB_USER_VERBS_CMD_RESIZE_CQ, cq::resize),
    needs!(resize_user_cq),
    extended(c::IB_USER_VERBS_EX_CMD_CREATE_CQ, cq::create_extended),
    needs!(create_cq),
    extended(c::IB_USER_VERBS_EX_CMD_MODIFY_CQ, cq::modify),
    needs!(modify_cq),
    Definition::object_start(c::UVERBS_OBJECT_DEVICE),
    custom_with_udata::<c::ib_uverbs_get_context, c::ib_uverbs_get_context_resp, _>(
        c::IB_USER_VERBS_CMD_GET_CONTEXT,
        context::get,
    ),
    query(c::IB_USER_VERBS_CMD_QUERY_DEVICE, device::query),
    query(c::IB_USER_VERBS_CMD_QUERY_PORT, device::query_port),
    needs!(query_port),
    query_extended(c::IB_USER_VERBS_EX_CMD_QUERY_DEVICE, device::query_extended),
    needs!(query_device),
    class_needs!(alloc_ucontext),
    class_needs!(dealloc_ucontext),
    Definition::object_start(c::UVERBS_OBJECT_FLOW),
    custom_extended(c::IB_USER_VERBS_EX_CMD_CREATE_FLOW, flow::create),
    needs!(create_flow),
    extended(c::IB_USER_VERBS_EX_CMD_DESTROY_FLOW, flow::destroy),
    needs!(destroy_flow),
    Definition::object_start(c::UVERBS_OBJECT_MR),
    command(c::IB_USER_VERBS_CMD_DEREG_MR, mr::dereg),
    needs!(dereg_mr),
    command_with_udata(c::IB_USER_VERBS_CMD_REG_MR, mr::reg),
    needs!(reg_user_mr),
    command_with_udata(c::IB_USER_VERBS_CMD_REREG_MR, mr::rereg),
    needs!(rereg_user_mr),
    Definition::object_start(c::UVERBS_OBJECT_MW),
    command_with_udata(c::IB_USER_VERBS_CMD_ALLOC_MW, mw::alloc),
    needs!(alloc_mw),
    command(c::IB_USER_VERBS_CMD_DEALLOC_MW, mw::dealloc),
    needs!(dealloc_mw),
    Definition::object_start(c::UVERBS_OBJECT_PD),
    command_with_udata(c::IB_USER_VERBS_CMD_ALLOC_PD, pd::alloc),
    needs!(alloc_pd),
    command(c::IB_USER_VERBS_CMD_DEALLOC_PD, pd::dealloc),
    needs!(dealloc_pd),
    Definition::object_start(c::UVERBS_OBJECT_QP),
    command(c::IB_USER_VERBS_CMD_ATTACH_MCAST, qp::attach_mcast),
    needs!(attach_mcast),
    needs!(detach_mcast),
    command_with_udata(c::IB_USER_VERBS_CMD_CREATE_QP, qp::create),
    needs!(create_qp),
    command(c::IB_USER_VERBS_CMD_DESTROY_QP, qp::destroy),
    needs!(destroy_qp),
    command(c::IB_USER_VERBS_CMD_DETACH_MCAST, qp::detach_mcast),
    needs!(detach_mcast),
    command(c::IB_USER_VERBS_CMD_MODIFY_QP, qp_attr::modify),
    needs!(modify_qp),
    custom::<c::ib_uverbs_post_recv, c::ib_uverbs_post_recv_resp, _>(
        c::IB_USER_VERBS_CMD_POST_RECV,
        data::post_recv,
    ),
    needs!(post_recv),
    custom::<c::ib_uverbs_post_send, c::ib_uverbs_post_send_resp, _>(
        c::IB_USER_VERBS_CMD_POST_SEND,
        data::post_send,
    ),
    needs!(post_send),
    command(c::IB_USER_VERBS_CMD_QUERY_QP, qp_attr::query),
    needs!(query_qp),
    extended(c::IB_USER_VERBS_EX_CMD_CREATE_QP, qp::create_extended),
    needs!(create_qp),
    extended(c::IB_USER_VERBS_EX_CMD_MODIFY_QP, qp_attr::modify_extended),
    needs!(modify_qp),
    Definition::object_start(c::UVERBS_OBJECT_RWQ_IND_TBL),
    custom_extended(c::IB_USER_VERBS_EX_CMD_CREATE_RWQ_IND_TBL, wq::create_table),
    needs!(create_rwq_ind_table),
    extended(
        c::IB_USER_VERBS_EX_CMD_DESTROY_RWQ_IND_TBL,
        wq::destroy_table,
    ),
    needs!(destroy_rwq_ind_table),
    Definition::object_start(c::UVERBS_OBJECT_WQ),
    extended(c::IB_USER_VERBS_EX_CMD_CREATE_WQ, wq::create),
    needs!(create_wq),
    extended(c::IB_USER_VERBS_EX_CMD_DESTROY_WQ, wq::destroy),
    needs!(destroy_wq),
    extended(c::IB_USER_VERBS_EX_CMD_MODIFY_WQ, wq::modify),
    needs!(modify_wq),
    Definition::object_start(c::UVERBS_OBJECT_SRQ),
    command_with_udata(c::IB_USER_VERBS_CMD_CREATE_SRQ, srq::create),
    needs!(create_srq),
    command_with_udata(c::IB_USER_VERBS_CMD_CREATE_XSRQ, srq::create_extended),
    needs!(create_srq),
    command(c::IB_USER_VERBS_CMD_DESTROY_SRQ, srq::destroy),
    needs!(destroy_srq),
    command_with_udata(c::IB_USER_VERBS_CMD_MODIFY_SRQ, srq::modify),
    needs!(modify_srq),
    custom::<c::ib_uverbs_post_srq_recv, c::ib_uverbs_post_srq_recv_resp, _>(
        c::IB_USER_VERBS_CMD_POST_SRQ_RECV,
        data::post_srq_recv,
    ),
    needs!(post_srq_recv),
    command(c::IB_USER_VERBS_CMD_QUERY_SRQ, srq::query),
    needs!(query_srq),
    Definition::object_start(c::UVERBS_OBJECT_XRCD),
    command(c::IB_USER_VERBS_CMD_CLOSE_XRCD, xrcd::close),
    command_with_udata(c::IB_USER_VERBS_CMD_OPEN_QP, qp::open),
    command_with_udata(c::IB_USER_VERBS_CMD_OPEN_XRCD, xrcd::open),
    class_needs!(alloc_xrcd),
    class_needs!(dealloc_xrcd),
    Definition::END,
];
