// SPDX-License-Identifier: GPL-2.0

//! Dispatch of ioctl commands: `RDMA_VERBS_IOCTL`.
//!
//! Before the handler runs, each attribute is checked against the method's table: its objects are looked up and locked, or begun
//! (`rdma_alloc_begin_uobject`). An object that the method destroys is destroyed before the handler runs, too. After the handler
//! all objects are put back; new ones are committed if it succeeded.
//!
//! C headers: `include/uapi/rdma/rdma_user_ioctl.h`, `include/rdma/uverbs_ioctl.h`.

use kernel::{ioctl::_IOWR, prelude::*};
use kernel_ext::{
    bindings::{ib_uverbs_ioctl_hdr, RDMA_IOCTL_MAGIC},
    error::EPROTONOSUPPORT,
};
use rdma::{core::command::UverbsFile, MaySleep};

use rdma_uverbs::{
    bundle::{Bundle, Request},
    node::Node,
};

use crate::attr;

const RDMA_VERBS_IOCTL: u32 = _IOWR::<ib_uverbs_ioctl_hdr>(RDMA_IOCTL_MAGIC, 1);

/// Runs the command of a system call.
///
/// # Errors
///
/// `ENOIOCTLCMD` for another ioctl; `EPROTONOSUPPORT` for a method or an attribute that the device does not have, for which
/// libibverbs falls back to `write()`; `EINVAL` for attributes that do not match the method's table, or another driver ID; `EIO` if
/// the device was removed; those of the handler.
pub(crate) fn ioctl(
    file: &UverbsFile,
    command: u32,
    arg: usize,
    sleep: &MaySleep,
) -> Result<isize> {
    if command != RDMA_VERBS_IOCTL {
        return Err(ENOIOCTLCMD);
    }
    let request = Request::read(arg)?;
    let node = Node::of(file);
    let _access = node.access();
    let api = node.api();
    if request.driver_id != api.driver_id() {
        return Err(EINVAL);
    }
    let method = api
        .method(request.object, request.method)
        .ok_or(EPROTONOSUPPORT)?;
    if !method.is_callable() {
        return Err(EIO);
    }
    // SAFETY: The method is from the API of the file's device, and `_access` holds `disassociate_srcu`.
    unsafe { Bundle::run(file, method, &request, sleep, |bundle| run(bundle, sleep))? };
    Ok(0)
}

fn run(bundle: &mut Bundle<'_>, sleep: &MaySleep) -> Result {
    let mut nth = 0;
    while let Some(sent) = bundle.sent(nth) {
        attr::take(bundle, &sent, sleep)?;
        nth += 1;
    }
    if !bundle.is_complete() {
        return Err(EINVAL);
    }
    let method = bundle.method();
    if method.has_udata() {
        bundle.fill_driver_udata();
    }
    if let Some(index) = method.destroys() {
        bundle.destroy(index, sleep)?;
    }
    bundle.call(sleep).map_err(no_fallback)?;
    if method.has_udata() {
        bundle.mark_driver_output()?;
    }
    Ok(())
}

/// Replaces `EPROTONOSUPPORT` of a handler: libibverbs would fall back to `write()`.
fn no_fallback(error: Error) -> Error {
    if error == EPROTONOSUPPORT {
        EINVAL
    } else {
        error
    }
}
