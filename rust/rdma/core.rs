// SPDX-License-Identifier: GPL-2.0

//! The C structures of RDMA objects as the core and ib_uverbs use them, for a driver in any language.
//!
//! Each type is a transparent wrapper of a structure: a reference to it is a pointer that C may pass or get. Members that are
//! constant or synchronised have safe accessors, in one file per concept. A method that changes a member says who may call it.
//!
//! For drivers in Rust there are typed objects with driver data: [`crate::Device`], [`crate::Pd`] and so on.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub mod addr;
pub mod address_vector;
pub mod ah;
pub mod ah_attr;
pub mod callback;
pub mod cgroup;
pub mod class;
pub mod client;
pub mod cm;
pub mod cma;
pub mod command;
#[cfg(has_comp_cntr)]
pub mod comp_cntr;
#[cfg(not(has_comp_cntr))]
#[path = "core/no_comp_cntr.rs"]
pub mod comp_cntr;
pub mod connection;
pub mod counter;
pub mod counters;
pub mod cq;
pub mod device;
pub mod dm;
pub mod driver;
pub mod event;
pub mod flow;
pub mod frmr;
pub mod gid;
pub mod iw;
pub mod link;
pub mod list;
pub mod mad;
pub mod mmap;
pub mod mr;
pub mod netlink;
pub mod network_header;
pub mod object;
pub mod ops;
pub mod path;
pub mod pd;
pub mod port;
pub mod printk;
pub mod qp;
pub mod restrack;
pub mod rw;
pub mod sa;
pub mod srq;
pub mod stats;
pub mod sysfs;
pub mod trace;
pub mod umem;
pub mod uobject;
pub mod user;

use kernel::types::Opaque;
use kernel_ext::entry::{view_of, View};
use rdma_bindings::{
    ib_ah, ib_client, ib_core_device, ib_counters, ib_cq, ib_device, ib_dm, ib_dmah, ib_event,
    ib_event_handler, ib_flow, ib_flow_action, ib_gid_attr, ib_mr, ib_mw, ib_pd, ib_qp,
    ib_rwq_ind_table, ib_srq, ib_ucontext, ib_uobject, ib_wq, ib_xrcd, rdma_counter,
    rdma_restrack_entry, uverbs_attr_bundle,
};

view_of! {
    /// The memory of a device, `struct ib_device`: its driver may be gone. An [`ARef<DeviceMemory>`](kernel::sync::aref::ARef)
    /// keeps it.
    pub struct DeviceMemory(ib_device);
}
view_of! {
    /// A device whose driver is there as long as the borrow: its methods may be called. A
    /// [`Registered`](device::Registered) keeps it registered, and so its driver.
    ///
    /// # Invariants
    ///
    /// The driver of the device is there: C lends the device, or `DeviceMemory::with_driver` was told.
    pub struct Device(ib_device);
}
view_of! {
    /// A device as a network namespace sees it in sysfs.
    pub struct CoreDevice(ib_core_device);
}
view_of! {
    /// A client of the core, which is notified of devices that are added and removed: `struct ib_client`.
    pub struct Client(ib_client);
}
view_of! {
    /// An asynchronous event, as a driver dispatches it: `struct ib_event`.
    ///
    /// # Invariants
    ///
    /// The driver of its device dispatches the event, which is filled in and does not change while it is borrowed.
    pub struct EventView(ib_event);
}
view_of! {
    /// A handler of a device's asynchronous events: `struct ib_event_handler`.
    pub struct EventHandler(ib_event_handler);
}
view_of! {
    /// An entry of a GID table.
    pub struct GidAttrView(ib_gid_attr);
}
view_of! {
    /// A protection domain.
    pub struct Pd(ib_pd);
}
view_of! {
    /// An address handle.
    pub struct Ah(ib_ah);
}
view_of! {
    /// A completion queue.
    pub struct Cq(ib_cq);
}
view_of! {
    /// A queue pair.
    pub struct Qp(ib_qp);
}
view_of! {
    /// A shared receive queue.
    pub struct Srq(ib_srq);
}
view_of! {
    /// A memory region.
    pub struct Mr(ib_mr);
}
view_of! {
    /// A memory window.
    pub struct Mw(ib_mw);
}
view_of! {
    /// An XRC domain.
    pub struct Xrcd(ib_xrcd);
}
view_of! {
    /// A work queue.
    pub struct Wq(ib_wq);
}
view_of! {
    /// A table of receive work queues.
    pub struct RwqIndTable(ib_rwq_ind_table);
}
view_of! {
    /// A flow steering rule.
    pub struct Flow(ib_flow);
}
view_of! {
    /// An action of flow steering rules.
    pub struct FlowAction(ib_flow_action);
}
view_of! {
    /// Device memory: `struct ib_dm`.
    pub struct Dm(ib_dm);
}
view_of! {
    /// A DMA handle, with TLP processing hints: `struct ib_dmah`.
    pub struct Dmah(ib_dmah);
}
view_of! {
    /// Counters of flow steering rules: `struct ib_counters`.
    pub struct Counters(ib_counters);
}
view_of! {
    /// A per-port counter that queue pairs are bound to: `struct rdma_counter`.
    pub struct Counter(rdma_counter);
}
view_of! {
    /// The user context of an open device file: `struct ib_ucontext`.
    pub struct Ucontext(ib_ucontext);
}
view_of! {
    /// A user object: `struct ib_uobject`.
    pub struct Uobject(ib_uobject);
}
/// A command of user space with its attributes: `struct uverbs_attr_bundle`.
///
/// Only the thread that executes the command uses it: the type is neither `Send` nor `Sync`, so its members need no locking.
///
/// # Invariants
///
/// The structure is the member `bundle` of a `struct bundle_priv`, which is valid until the command has returned, and whose owner
/// frees the entries of the list `allocated_mem`.
#[repr(transparent)]
pub struct AttrBundle(Opaque<uverbs_attr_bundle>);

// SAFETY: The type is a transparent wrapper of an `Opaque`.
unsafe impl View for AttrBundle {
    type C = uverbs_attr_bundle;
}

impl AttrBundle {
    /// The C structure.
    #[inline(always)]
    pub fn as_raw(&self) -> *mut uverbs_attr_bundle {
        self.0.get()
    }
}

view_of! {
    /// The resource tracking entry of an object: `struct rdma_restrack_entry`.
    pub struct RestrackEntry(rdma_restrack_entry);
}
