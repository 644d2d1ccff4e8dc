// SPDX-License-Identifier: GPL-2.0

//! XRC domains of user space (`struct ib_uxrcd_object`), and those that processes share by the same file.
//!
//! C headers: `include/rdma/uverbs_std_types.h`, `include/rdma/ib_verbs.h`.

use core::{
    ptr::{null_mut, NonNull},
    sync::atomic::{AtomicI32, AtomicPtr, Ordering},
};

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    types::Opaque,
};
use kernel_ext::static_vec::StaticVec;
use rdma::{
    core::{
        object::{Failed, Owned, UdataView},
        pd::Inode,
        Device, Uobject, Xrcd,
    },
    MaySleep,
};
use rdma_bindings::{self as bindings, ib_uobject};

use crate::{
    class::{Class, Destroying},
    destroy,
    inode::InodeRef,
    new::NewObject,
};

/// The memory of an XRC domain: `struct ib_uxrcd_object`.
#[repr(C)]
pub struct XrcdObject {
    uobject: Opaque<ib_uobject>,
    /// The number of queue pairs and SRQs of the file that use it.
    uses: AtomicI32,
}

// SAFETY: `uses` is atomic, and the object may be used from any thread through its view.
unsafe impl Send for XrcdObject {}
// SAFETY: `uses` is atomic, and the object may be used from any thread through its view.
unsafe impl Sync for XrcdObject {}

// SAFETY: ib_uverbs has a table entry of the class with this ID; the structure begins with the `ib_uobject`.
unsafe impl Class for Xrcd {
    const ID: u16 = bindings::UVERBS_OBJECT_XRCD as u16;
    type Memory = XrcdObject;
}

impl XrcdObject {
    /// The common part of all objects.
    #[inline]
    pub fn uobject(&self) -> &Uobject {
        // SAFETY: A view is a transparent wrapper.
        unsafe { &*self.uobject.get().cast() }
    }

    /// Whether objects of the file use it.
    #[inline]
    pub fn is_used(&self) -> bool {
        self.uses.load(Ordering::Relaxed) != 0
    }
}

/// The XRC domain that an object uses, if any. A domain with users is not destroyed.
#[repr(transparent)]
pub(crate) struct XrcdLink(AtomicPtr<XrcdObject>);

impl XrcdLink {
    /// Sets the domain that the object uses, in place of the former one.
    pub(crate) fn set(&self, xrcd: &XrcdObject) {
        xrcd.uses.fetch_add(1, Ordering::Relaxed);
        self.replace(core::ptr::from_ref(xrcd).cast_mut());
    }

    /// Ends the use of the domain.
    pub(crate) fn clear(&self) {
        self.replace(null_mut());
    }

    fn replace(&self, xrcd: *mut XrcdObject) {
        let former = self.0.swap(xrcd, Ordering::Relaxed);
        // SAFETY: `set` has counted this object as a user of the domain, so that the domain was not destroyed.
        if let Some(former) = unsafe { former.as_ref() } {
            former.uses.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Allocates an XRC domain. The caller holds the reference to `inode` as long as the domain exists.
fn alloc(
    device: &Device,
    inode: Option<&Inode>,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result<Owned<Xrcd>> {
    let inode = inode.map_or(null_mut(), Inode::as_raw);
    // SAFETY: All are valid during the call; the domain only compares the pointer to the inode.
    let xrcd = unsafe { bindings::ib_alloc_xrcd_user(device.as_raw(), inode, udata.as_raw()) };
    let xrcd = NonNull::new(from_err_ptr(xrcd)?).ok_or(EINVAL)?;
    // SAFETY: It was just allocated, and has no other owner.
    Ok(unsafe { Owned::from_raw(xrcd) })
}

fn dealloc(
    xrcd: Owned<Xrcd>,
    udata: &UdataView,
    _sleep: &MaySleep,
) -> Result<(), Failed<Owned<Xrcd>>> {
    // SAFETY: The owner gives the domain up.
    let result = unsafe { bindings::ib_dealloc_xrcd_user(xrcd.as_raw(), udata.as_raw()) };
    to_result(result).map_err(|error| Failed {
        object: xrcd,
        error,
    })
}

/// A domain that a file identifies.
struct Named {
    inode: InodeRef,
    xrcd: Owned<Xrcd>,
}

/// The domains that files identify.
///
/// # Invariants
///
/// The use count of each is the number of user objects that have it as their `object`. Each of them stands for one more [`Owned`]
/// besides the one in the list.
pub struct NamedXrcds(StaticVec<Named>);

impl Default for NamedXrcds {
    fn default() -> Self {
        Self::new()
    }
}

impl NamedXrcds {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(StaticVec::new())
    }

    /// Finds the domain of a device that a file identifies.
    pub fn find(&self, device: &Device, inode: &InodeRef) -> Option<NamedXrcd<'_>> {
        let is_this = |named: &&Named| {
            let same_device = core::ptr::eq(named.xrcd.device(), device);
            same_device && core::ptr::eq::<Inode>(&*named.inode, &**inode)
        };
        self.0
            .iter()
            .find(is_this)
            .map(|named| NamedXrcd(&named.xrcd))
    }

    /// Allocates a domain for an object that is being created; with an inode, one that other objects may share.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP`, `ENOMEM`, those of the driver.
    pub fn alloc(
        &mut self,
        new: NewObject<'_, Xrcd>,
        device: &Device,
        inode: Option<InodeRef>,
        udata: &UdataView,
        sleep: &MaySleep,
    ) -> Result {
        let Some(inode) = inode else {
            new.complete(alloc(device, None, udata, sleep)?);
            return Ok(());
        };
        let slot = self.0.reserve(GFP_KERNEL)?;
        let xrcd = alloc(device, Some(&inode), udata, sleep)?;
        NamedXrcd(&xrcd).share(new);
        // INVARIANT: The use count is 1, for the one object.
        slot.push(Named { inode, xrcd });
        Ok(())
    }

    /// Ends an object's use of its domain, and deallocates the domain unless other objects share it.
    ///
    /// # Errors
    ///
    /// `EBUSY` while it is used, and those of the driver. On an error nothing changes.
    pub fn release(
        &mut self,
        xrcd: Owned<Xrcd>,
        udata: &UdataView,
        sleep: &MaySleep,
    ) -> Result<(), Failed<Owned<Xrcd>>> {
        let is_this = |named: &Named| core::ptr::eq::<Xrcd>(&*named.xrcd, &*xrcd);
        let Some(nth) = self.0.iter().position(is_this) else {
            return dealloc(xrcd, udata, sleep);
        };
        // SAFETY: By the type invariants the object's use of the domain was counted; if the deallocation fails it is counted
        // again.
        unsafe { xrcd.uses().dec() };
        if xrcd.uses().is_used() {
            return Ok(());
        }
        dealloc(xrcd, udata, sleep).inspect_err(|failed| failed.object.uses().inc())?;
        // Puts the inode, too.
        drop(self.0.remove(nth));
        Ok(())
    }
}

/// A domain that a file identifies, and that objects may share.
pub struct NamedXrcd<'a>(&'a Owned<Xrcd>);

impl NamedXrcd<'_> {
    /// Completes an object that is being created with this domain.
    pub fn share(&self, new: NewObject<'_, Xrcd>) {
        // INVARIANT: One more object is counted.
        self.0.uses().inc();
        // SAFETY: The domain is valid as long as its use is counted.
        unsafe { new.uobject().set_object(self.0.as_raw().cast()) };
        new.finish();
    }
}

/// Destroys the object of an XRC domain. `dealloc` ends its use of the domain, which other objects may share.
///
/// # Errors
///
/// `EBUSY` while objects of the file use it, and those of `dealloc`.
pub fn destroy(
    object: &Destroying<'_, Xrcd>,
    dealloc: impl FnOnce(Owned<Xrcd>) -> Result<(), Failed<Owned<Xrcd>>>,
) -> Result {
    if object.is_used() {
        return Err(EBUSY);
    }
    destroy::destroy(object, dealloc)
}
