// SPDX-License-Identifier: GPL-2.0

//! Queries of the methods of `UVERBS_OBJECT_DEVICE`: the handles of a file, the GID table, the speed of a port.
//!
//! All functions are called in process context, with `disassociate_srcu` held.
//!
//! C headers: `include/rdma/ib_cache.h`, `include/rdma/ib_verbs.h`, `include/rdma/ib_ucaps.h`.

use core::{mem::offset_of, ptr::NonNull};

use kernel::{
    error::{from_err_ptr, to_result},
    prelude::*,
    sync::rcu,
};
use kernel_ext::{
    error::{ENODATA, EOPNOTSUPP},
    zeroed::zeroed,
};
use rdma::{
    core::{command::UverbsFile, uobject::ApiObject, AttrBundle, Device, Ucontext, Uobject},
    MaySleep,
};
use rdma_bindings::{self as c, ib_uverbs_gid_entry};

/// Writes the handles of a file's objects of a class to `room`, as many as fit, and returns their number.
pub fn handles(file: &UverbsFile, kind: &ApiObject, room: &mut [u32]) -> usize {
    let raw = file.as_raw();
    let mut count = 0;
    // SAFETY: The lock protects the list of objects, whose links are members of objects.
    unsafe {
        let flags = c::spin_lock_irqsave(&raw mut (*raw).uobjects_lock);
        let head = &raw mut (*raw).uobjects;
        let mut link = (*head).next;
        while link != head {
            let object = link.byte_sub(offset_of!(c::ib_uobject, list));
            let object = &*object.cast::<Uobject>();
            if core::ptr::eq(object.api_object(), kind) {
                let Some(place) = room.get_mut(count) else {
                    break;
                };
                *place = object.id();
                count += 1;
            }
            link = (*link).next;
        }
        c::spin_unlock_irqrestore(&raw mut (*raw).uobjects_lock, flags);
    }
    count
}

/// The valid entries of the GID tables of a device, at most `max`.
///
/// # Errors
///
/// `ENOMEM`, `EINVAL` if there are more.
pub fn gid_table(
    device: &Device,
    max: usize,
    _sleep: &MaySleep,
) -> Result<KVVec<ib_uverbs_gid_entry>> {
    let mut entries: KVVec<ib_uverbs_gid_entry> = zeroed(max, GFP_KERNEL)?;
    // SAFETY: The device is valid, and the vector has room for its length.
    let count =
        unsafe { c::rdma_query_gid_table(device.as_raw(), entries.as_mut_ptr(), entries.len()) };
    let count = usize::try_from(count).map_err(|_| EINVAL)?;
    entries.truncate(count);
    Ok(entries)
}

/// A counted reference to an entry of a GID table.
///
/// # Invariants
///
/// `self` owns a reference to the entry.
struct GidAttr(NonNull<c::ib_gid_attr>);

impl GidAttr {
    fn find(device: &Device, port: u32, index: u32) -> Result<Self> {
        // SAFETY: The device is valid; the function returns an entry or an errno.
        let entry = from_err_ptr(unsafe {
            c::rdma_get_gid_attr(device.as_raw(), port, index as i32).cast_mut()
        })?;
        // INVARIANT: The function has returned a counted reference.
        Ok(Self(NonNull::new(entry).ok_or(ENODATA)?))
    }

    /// The interface index of the entry's net device, 0 if none.
    fn ifindex(&self) -> Result<u32> {
        let guard = rcu::read_lock();
        // SAFETY: By the type invariants; the function returns a net device or an errno.
        let ndev = from_err_ptr(unsafe { c::rdma_read_gid_attr_ndev_rcu(self.0.as_ptr()) });
        let ifindex = match ndev {
            // SAFETY: The net device is valid as long as the guard; its index is constant.
            Ok(ndev) => unsafe { (*ndev).ifindex as u32 },
            Err(error) if error == ENODEV => 0,
            Err(error) => return Err(error),
        };
        drop(guard);
        Ok(ifindex)
    }
}

impl Drop for GidAttr {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `self` owns the reference.
        unsafe { c::rdma_put_gid_attr(self.0.as_ptr()) };
    }
}

/// An entry of a GID table.
///
/// # Errors
///
/// `EINVAL` for a port or an index that does not exist, `ENODATA` for an empty entry.
pub fn gid_entry(
    device: &Device,
    port: u32,
    index: u32,
    _sleep: &MaySleep,
) -> Result<ib_uverbs_gid_entry> {
    if !device.is_port_valid(port) {
        return Err(EINVAL);
    }
    let attr = GidAttr::find(device, port, index)?;
    let netdev_ifindex = attr.ifindex()?;
    // SAFETY: The entry is held; these members are constant. Any bytes are a valid GID.
    Ok(unsafe {
        let raw = attr.0.as_ref();
        ib_uverbs_gid_entry {
            gid: core::mem::transmute::<[u8; 16], [u64; 2]>(raw.gid.raw),
            gid_index: raw.index.into(),
            port_num: raw.port_num,
            gid_type: raw.gid_type,
            netdev_ifindex,
        }
    })
}

/// The speed of a port in units of 100 Mb/s, over all lanes.
///
/// # Errors
///
/// Those of the driver; `EOPNOTSUPP` if it has no method.
pub fn port_speed(device: &Device, port: u32, _sleep: &MaySleep) -> Result<u64> {
    let query = device.ops().query_port_speed.ok_or(EOPNOTSUPP)?;
    let mut speed = 0;
    // SAFETY: The device is valid, and the token proves that the context may sleep.
    to_result(unsafe { query(device.as_raw(), port, &mut speed) })?;
    Ok(speed)
}

/// Calls the driver's `query_ucontext`.
///
/// # Errors
///
/// Those of the driver; `EOPNOTSUPP` if it has no method.
pub fn query_ucontext(context: &Ucontext, command: &AttrBundle, _sleep: &MaySleep) -> Result {
    let query = context.device().ops().query_ucontext.ok_or(EOPNOTSUPP)?;
    // SAFETY: Both are valid, and the token proves that the context may sleep.
    to_result(unsafe { query(context.as_raw(), command.as_raw()) })
}

/// The capabilities of file descriptors of the current process, as a set of `1 << enum rdma_user_cap`.
///
/// # Errors
///
/// `EBADF`, `EINVAL` for a file that is no capability.
pub fn user_caps(fds: &[u8], _sleep: &MaySleep) -> Result<u64> {
    let mut list = KVec::with_capacity(fds.len() / size_of::<i32>(), GFP_KERNEL)?;
    for fd in fds.chunks_exact(size_of::<i32>()) {
        let fd = fd.try_into().map_err(|_| EINVAL)?;
        list.push(i32::from_ne_bytes(fd), GFP_KERNEL)?;
    }
    let mut caps = 0;
    // SAFETY: The list is a local vector.
    to_result(unsafe { c::ib_get_ucaps(list.as_mut_ptr(), list.len() as i32, &mut caps) })?;
    Ok(caps)
}
