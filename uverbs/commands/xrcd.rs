// SPDX-License-Identifier: GPL-2.0

//! Write commands of XRC domains. Processes share a domain by naming it by the same file.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | [`NAMED`] | the list of domains that are named by files, and creating and destroying any domain | process | `hw_destroy_rwsem` of the file, tried; what drivers take |
//!
//! C header: `include/uapi/rdma/ib_user_verbs.h`.

use kernel::prelude::*;
use kernel_ext::{bindings as c, static_lock::static_lock};
use rdma::{
    core::{uobject::RemoveReason, AttrBundle, Xrcd},
    MaySleep,
};
use rdma_uverbs::{
    class::Destroying,
    inode::InodeRef,
    lookup,
    new::NewObject,
    request::{zeroed, Call},
    xrcd::{self, NamedXrcds},
};

static_lock! {
    /// The domains that are named by files.
    static NAMED: Mutex<NamedXrcds> = NamedXrcds::new();
}

/// `IB_USER_VERBS_CMD_OPEN_XRCD`.
///
/// # Errors
///
/// `EBADF` for a file descriptor that is not open, `EAGAIN` if the file names no domain and `O_CREAT` is not set, `EINVAL` if it
/// names one and `O_EXCL` is set; `ENOMEM`, and those of the driver.
pub(super) fn open(
    call: &Call<'_>,
    request: c::ib_uverbs_open_xrcd,
) -> Result<c::ib_uverbs_open_xrcd_resp> {
    let mut named = NAMED.lock();
    let inode = (request.fd != u32::MAX)
        .then(|| InodeRef::of_fd(request.fd, call.sleep))
        .transpose()?;
    let device = rdma_uverbs::context::device(call.command)?;
    let found = inode.as_ref().and_then(|inode| named.find(device, inode));
    if inode.is_some() {
        match found {
            None if request.oflags & c::O_CREAT == 0 => return Err(EAGAIN),
            Some(_) if request.oflags & c::O_EXCL != 0 => return Err(EINVAL),
            _ => {}
        }
    }
    let new = NewObject::<Xrcd>::begin(call.command, call.sleep)?;
    let response = c::ib_uverbs_open_xrcd_resp {
        xrcd_handle: new.id(),
        ..zeroed()
    };
    match found {
        Some(xrcd) => xrcd.share(new),
        None => named.alloc(new, call.device()?, inode, call.udata(), call.sleep)?,
    }
    Ok(response)
}

/// `IB_USER_VERBS_CMD_CLOSE_XRCD`.
///
/// # Errors
///
/// `EBUSY` while it is used.
pub(super) fn close(call: &Call<'_>, request: c::ib_uverbs_close_xrcd) -> Result {
    lookup::destroy::<Xrcd>(call.command, request.xrcd_handle, call.sleep)
}

/// Destroys the object of a domain, and with the last object that shares it the domain.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver: then all stays as it is.
pub(crate) fn destroy(
    object: Destroying<'_, Xrcd>,
    _why: RemoveReason,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result {
    let udata = command.driver_udata();
    xrcd::destroy(&object, |xrcd| NAMED.lock().release(xrcd, udata, sleep))
}
