// SPDX-License-Identifier: GPL-2.0

//! Files of a client in the directory of a port: `ib_port_register_client_groups`.
//!
//! C header: `drivers/infiniband/core/core_priv.h`, `include/rdma/ib_sysfs.h`.

use core::ptr::null;

use kernel::{error::to_result, prelude::*};
use kernel_ext::sysfs::NewFile;
use rdma_bindings::{self as bindings, attribute_group};

use super::attachment::Attached;
use crate::{
    core::sysfs::{Behaviour, PortGroup},
    MaySleep,
};

/// Groups of files in the directory of a port. Dropping them, in process context, removes them, which waits for their readers.
///
/// # Invariants
///
/// The groups of the list, which null ends, are in the directory of the port.
pub struct PortFiles {
    list: KVec<*const attribute_group>,
    _groups: KVec<PortGroup>,
    port: u32,
    device: Attached,
}

// SAFETY: The list is constant.
unsafe impl Send for PortFiles {}
// SAFETY: The list is constant.
unsafe impl Sync for PortFiles {}

impl PortFiles {
    /// Makes the files: the name of each group, and its files.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an invalid port, `ENOMEM`, `EEXIST`, `ENODEV`.
    pub fn new<F: IntoIterator<Item = NewFile<Behaviour>>>(
        device: &Attached,
        port: u32,
        groups: impl IntoIterator<Item = (&'static CStr, F)>,
        sleep: &MaySleep,
    ) -> Result<Self> {
        sleep.check();
        device.check_port(port)?;
        let device = device.another().ok_or(ENODEV)?;
        let (mut list, mut made) = (KVec::new(), KVec::new());
        for (name, files) in groups {
            let group = PortGroup::new(Some(name), files)?;
            list.push(group.as_raw(), GFP_KERNEL)?;
            made.push(group, GFP_KERNEL)?;
        }
        list.push(null(), GFP_KERNEL)?;
        // SAFETY: The device is registered as long as `device`, and has the port; the list is null-terminated, and its groups stay as long as the result.
        to_result(unsafe {
            bindings::ib_port_register_client_groups(device.as_raw(), port, list.as_mut_ptr())
        })?;
        // INVARIANT: The groups were just added.
        Ok(Self {
            list,
            _groups: made,
            port,
            device,
        })
    }
}

impl Drop for PortFiles {
    fn drop(&mut self) {
        let (device, list) = (self.device.as_raw(), self.list.as_mut_ptr());
        // SAFETY: By the type invariants.
        unsafe { bindings::ib_port_unregister_client_groups(device, self.port, list) };
    }
}
