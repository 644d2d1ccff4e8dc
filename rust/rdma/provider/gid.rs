// SPDX-License-Identifier: GPL-2.0

//! The GID tables of a device's ports: `rdma_get_gid_attr` and `rdma_find_gid_by_port` of `include/rdma/ib_cache.h`.

use kernel::{error::to_result, prelude::*, sync::aref::ARef};
use kernel_ext::net::device::NetDevice;
use rdma_bindings::{self as bindings, ib_gid};

use crate::{
    abi::gid::{owned_gid_attr, Gid, GidAttr, GidType},
    Device,
};

impl<P> Device<P> {
    /// The entry at `index` of a port's GID table.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a wrong port or index, `ENODATA` for an entry that is not valid.
    pub fn gid_attr(&self, port_num: u32, index: u16) -> Result<ARef<GidAttr>> {
        // SAFETY: `self` is a valid device, and the function returns a reference or an errno.
        unsafe {
            let raw = bindings::rdma_get_gid_attr(self.as_raw(), port_num, i32::from(index));
            owned_gid_attr(raw)
        }
    }

    /// The GID at `index` of a port's GID table.
    ///
    /// # Errors
    ///
    /// As for [`Self::gid_attr`].
    pub fn query_gid(&self, port_num: u32, index: u16) -> Result<Gid> {
        let mut gid = ib_gid { raw: [0; 16] };
        // SAFETY: `self` is a valid device; `gid` is valid for writes.
        to_result(unsafe {
            bindings::rdma_query_gid(self.as_raw(), port_num, i32::from(index), &mut gid)
        })?;
        Ok(Gid::from_raw(&gid))
    }

    /// The entry of a port's GID table that has `gid` and is of type `gid_type`, on `ndev` if
    /// that is given. Any context.
    ///
    /// # Errors
    ///
    /// `ENOENT` if there is no such entry.
    pub fn find_gid(
        &self,
        gid: Gid,
        gid_type: GidType,
        port_num: u32,
        ndev: Option<&NetDevice>,
    ) -> Result<ARef<GidAttr>> {
        let gid = gid.to_raw();
        let ndev = ndev.map_or(core::ptr::null_mut(), NetDevice::as_raw);
        // SAFETY: `self` is a valid device, `gid` is valid for reads, and `ndev` is a valid net device or null.
        let raw = unsafe {
            bindings::rdma_find_gid_by_port(
                self.as_raw(),
                &gid,
                gid_type.as_raw(),
                port_num,
                ndev.cast(),
            )
        };
        // SAFETY: The function has returned a reference or an errno.
        unsafe { owned_gid_attr(raw) }
    }
}
