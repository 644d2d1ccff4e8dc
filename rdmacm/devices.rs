// SPDX-License-Identifier: GPL-2.0

//! A device, and the defaults of its ports: the kind of GIDs and the type of service.
//!
//! C header: `include/rdma/ib_verbs.h`.

use core::sync::atomic::{AtomicU32, AtomicU8, Ordering};

use cm_rules::path::{GidType, GidTypes};
use kernel::{prelude::*, sync::Arc};
use kernel_ext::bindings::{
    RDMA_CORE_CAP_AF_IB, RDMA_CORE_CAP_IB_CM, RDMA_CORE_CAP_IB_SA, RDMA_CORE_CAP_IW_CM,
    RDMA_CORE_CAP_OPA_AH,
};
use rdma::core::{cma::device::gid_types, Device};

/// The defaults of a port.
struct Port {
    gid_type: AtomicU32,
    tos: AtomicU8,
}

/// A device.
pub(crate) struct Dev {
    first: u32,
    ports: KVec<Port>,
}

/// The kind of a GID by its number.
pub(crate) fn gid_type(raw: u32) -> GidType {
    match raw {
        1 => GidType::RoceV1,
        2 => GidType::RoceV2,
        _ => GidType::Ib,
    }
}

impl Dev {
    /// The defaults of a device whose ports say what they support.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(device: &Device) -> Result<Arc<Self>> {
        let mut ports = KVec::new();
        for number in device.ports() {
            let kinds = GidTypes(gid_types(device, number));
            let preferred = kinds.preferred().unwrap_or(GidType::Ib);
            let port = Port {
                gid_type: AtomicU32::new(preferred as u32),
                tos: AtomicU8::new(0),
            };
            ports.push(port, GFP_KERNEL)?;
        }
        let first = *device.ports().start();
        Ok(Arc::new(Self { first, ports }, GFP_KERNEL)?)
    }

    fn port(&self, number: u32) -> Option<&Port> {
        self.ports.get(number.checked_sub(self.first)? as usize)
    }

    /// The default kind of GIDs of a port.
    pub(crate) fn gid_type(&self, port: u32) -> GidType {
        let port = self.port(port);
        port.map_or(GidType::Ib, |port| {
            gid_type(port.gid_type.load(Ordering::Relaxed))
        })
    }

    /// The default type of service of a port.
    pub(crate) fn tos(&self, port: u32) -> u8 {
        self.port(port)
            .map_or(0, |port| port.tos.load(Ordering::Relaxed))
    }

    /// Sets the default kind of GIDs of a port.
    pub(crate) fn set_gid_type(&self, port: u32, kind: GidType) {
        if let Some(port) = self.port(port) {
            port.gid_type.store(kind as u32, Ordering::Relaxed);
        }
    }

    /// Sets the default type of service of a port.
    pub(crate) fn set_tos(&self, port: u32, tos: u8) {
        if let Some(port) = self.port(port) {
            port.tos.store(tos, Ordering::Relaxed);
        }
    }
}

fn has(device: &Device, port: u32, capability: u32) -> bool {
    let immutable = device.immutable(port);
    immutable.is_some_and(|immutable| immutable.core_cap_flags & capability != 0)
}

/// Who manages the connections of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manager {
    /// `ib_cm`.
    Ib,
    /// `iw_cm`.
    Iw,
}

/// Who manages the connections of a port; `None` if nobody does.
pub(crate) fn manager(device: &Device, port: u32) -> Option<Manager> {
    if has(device, port, RDMA_CORE_CAP_IB_CM) {
        return Some(Manager::Ib);
    }
    has(device, port, RDMA_CORE_CAP_IW_CM).then_some(Manager::Iw)
}

/// Whether a subnet administrator knows paths and groups of a port.
pub(crate) fn has_sa(device: &Device, port: u32) -> bool {
    has(device, port, RDMA_CORE_CAP_IB_SA)
}

/// Whether a port has addresses of `AF_IB`.
pub(crate) fn has_af_ib(device: &Device, port: u32) -> bool {
    has(device, port, RDMA_CORE_CAP_AF_IB)
}

/// Whether a port has addresses of Omni-Path.
pub(crate) fn is_opa(device: &Device, port: u32) -> bool {
    has(device, port, RDMA_CORE_CAP_OPA_AH)
}
