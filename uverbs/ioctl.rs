// SPDX-License-Identifier: GPL-2.0

//! The door `ioctl()`: `RDMA_VERBS_IOCTL`, with a method and its attributes.
//!
//! A command is taken apart by the method's table before its handler runs: data is checked, objects are looked up and locked,
//! or begun; then all is put back, and what is new stays if the handler succeeded. One that destroys an object does so
//! before its handler runs.

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

/// Runs what a system call asks for.
///
/// # Errors
///
/// `ENOIOCTLCMD` for another number; `EPROTONOSUPPORT` for a method or an attribute that the device does not have: then
/// libibverbs tries `write()`; `EINVAL` for what is not as the method's table says, or is for another driver; `EIO` if the
/// device has gone; and what the handler says.
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
    Bundle::run(file, method, &request, sleep, |bundle| run(bundle, sleep))?;
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
    method.call(bundle.command(), sleep).map_err(no_fallback)?;
    if method.has_udata() {
        bundle.mark_driver_output()?;
    }
    Ok(())
}

/// `EPROTONOSUPPORT` is for a method that is not there: libibverbs would try again.
fn no_fallback(error: Error) -> Error {
    if error == EPROTONOSUPPORT {
        EINVAL
    } else {
        error
    }
}
