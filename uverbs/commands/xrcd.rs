// SPDX-License-Identifier: GPL-2.0

//! XRC domains. Processes share one by naming it by the same file.
//!
//! | lock | protects | taken in | inside |
//! |---|---|---|---|
//! | [`NAMED`] | the domains that are named by files, and making and destroying any | process | `hw_destroy_rwsem` of the file, tried; what drivers take |

use kernel::prelude::*;
use kernel_ext::{bindings as c, static_vec::StaticVec};
use rdma::{
    core::{
        object::{Failed, Owned},
        AttrBundle, Device, Xrcd,
    },
    MaySleep,
};
use rdma_uverbs::{
    held,
    inode::InodeRef,
    new::NewObject,
    request::{zeroed, Call},
    verbs,
};

/// A domain that is named by a file: each object that it has in a process is one of its users.
struct Named {
    inode: InodeRef,
    xrcd: Owned<Xrcd>,
}

kernel::sync::global_lock! {
    /// The domains that are named by files.
    // SAFETY: `init` is called before the module does anything else.
    unsafe(uninit) static NAMED: Mutex<StaticVec<Named>> = StaticVec::new();
}

/// Makes the list. The module's initialisation calls it, once.
pub(crate) fn init() {
    // SAFETY: Called once, before all else.
    unsafe { NAMED.init() };
}

/// The domain of a device that is named by a file.
fn find<'a>(named: &'a [Named], device: &Device, inode: &InodeRef) -> Option<&'a Xrcd> {
    named
        .iter()
        .find(|named| {
            let same_device = core::ptr::eq(named.xrcd.device(), device);
            same_device && core::ptr::eq::<rdma::core::pd::Inode>(&*named.inode, &**inode)
        })
        .map(|named| &*named.xrcd)
}

/// `IB_USER_VERBS_CMD_OPEN_XRCD`.
///
/// # Errors
///
/// `EBADF` for a descriptor that is none, `EAGAIN` where the file names none and `O_CREAT` is not given, `EINVAL` where it
/// names one and `O_EXCL` is given; `ENOMEM`, and those of the driver.
pub(super) fn open(
    call: &Call<'_>,
    request: c::ib_uverbs_open_xrcd,
) -> Result<c::ib_uverbs_open_xrcd_resp> {
    let mut named = NAMED.lock();
    let inode = (request.fd != u32::MAX)
        .then(|| InodeRef::of_fd(request.fd, call.sleep))
        .transpose()?;
    let device = rdma_uverbs::context::device(call.command)?;
    let found = inode.as_ref().and_then(|inode| find(&named, device, inode));
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
    if let Some(xrcd) = found {
        verbs::share_xrcd(new, xrcd);
        return Ok(response);
    }
    let place = match inode {
        Some(_) => Some(named.reserve()?),
        None => None,
    };
    let xrcd = verbs::alloc_xrcd(call.device()?, inode.as_deref(), call.udata(), call.sleep)?;
    match (inode, place) {
        (Some(inode), Some(place)) => {
            verbs::share_xrcd(new, &xrcd);
            place.push(Named { inode, xrcd });
        }
        _ => {
            new.complete(xrcd);
        }
    }
    Ok(response)
}

/// `IB_USER_VERBS_CMD_CLOSE_XRCD`.
///
/// # Errors
///
/// `EBUSY` while it is used.
pub(super) fn close(call: &Call<'_>, request: c::ib_uverbs_close_xrcd) -> Result {
    held::destroy::<Xrcd>(call.command, request.xrcd_handle, call.sleep)
}

/// Ends an object's use of its domain, which the caller has seen nothing else of the file uses; of a domain that is named, the
/// last object's use: then it is deallocated.
///
/// # Errors
///
/// `EBUSY` while it is used, and those of the driver: then all stays as it is.
pub(crate) fn dealloc(
    xrcd: Owned<Xrcd>,
    command: &AttrBundle,
    sleep: &MaySleep,
) -> Result<(), Failed<Owned<Xrcd>>> {
    let udata = command.driver_udata();
    let mut named = NAMED.lock();
    let is_this = |named: &Named| core::ptr::eq::<Xrcd>(&*named.xrcd, &*xrcd);
    let Some(nth) = named.iter().position(is_this) else {
        return verbs::dealloc_xrcd(xrcd, udata, sleep);
    };
    // SAFETY: Whoever opened the domain was counted, and gives it up; where that fails it is counted again.
    unsafe { xrcd.uses().dec() };
    if xrcd.uses().is_used() {
        return Ok(());
    }
    verbs::dealloc_xrcd(xrcd, udata, sleep).inspect_err(|failed| failed.object.uses().inc())?;
    // Lets go of the file, too.
    drop(named.remove(nth));
    Ok(())
}
