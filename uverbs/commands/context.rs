// SPDX-License-Identifier: GPL-2.0

//! The context of an open device file.

use kernel::prelude::*;
use kernel_ext::bindings as c;
use rdma_uverbs::{
    context::NewContext,
    event::{set_default_async, AsyncEvents},
    new::NewObject,
    node::Node,
    request::Call,
};

/// `IB_USER_VERBS_CMD_GET_CONTEXT`: a context, and a file of its events. The response is written before they are there, so
/// that nothing can fail after that.
///
/// # Errors
///
/// `EIO` if the device has gone, `EINVAL` if there is a context, `EMFILE`, `ENOMEM`, and those of the driver.
pub(super) fn get(call: &Call<'_>) -> Result {
    call.request::<c::ib_uverbs_get_context>()?;
    // Dropped last: the file of events is begun in it.
    let mut context = NewContext::new(*call)?;
    let new = NewObject::<AsyncEvents>::begin(call.command, call.sleep)?;
    call.respond(&c::ib_uverbs_get_context_resp {
        async_fd: new.id(),
        num_comp_vectors: Node::of(call.command.file()).comp_vectors(),
        driver_data: c::__IncompleteArrayField::new(),
    })?;
    context.publish(0)?;
    set_default_async(call.command.file(), &new);
    new.start(call.sleep)
}
