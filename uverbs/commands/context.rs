// SPDX-License-Identifier: GPL-2.0

//! The write command that creates the context of a file.
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma_uverbs::{
    context::NewContext,
    event::{set_default_async, AsyncEvents},
    node::Node,
    request::Call,
};

/// `IB_USER_VERBS_CMD_GET_CONTEXT`: creates a context and its async event file. The response is written before they are published,
/// since they cannot be withdrawn if that fails.
///
/// # Errors
///
/// `EIO` if the device was removed, `EINVAL` if there is a context, `EMFILE`, `ENOMEM`, and those of the driver.
pub(super) fn get(call: &Call<'_>) -> Result {
    call.request::<c::ib_uverbs_get_context>()?;
    let context = NewContext::new(*call)?;
    let new = context.begin::<AsyncEvents>()?;
    call.respond(&c::ib_uverbs_get_context_resp {
        async_fd: new.id(),
        num_comp_vectors: Node::of(call.command.file()).comp_vectors(),
        driver_data: c::__IncompleteArrayField::new(),
    })?;
    context.publish(0)?;
    set_default_async(call.command.file(), &new);
    new.start(call.sleep)
}
