// SPDX-License-Identifier: GPL-2.0

//! Safe types over the RDMA midlayer's C interface, for drivers, for the core, and for clients in the kernel.
//!
//! | module | users |
//! |---|---|
//! | [`abi`] | all: values and layouts of the C headers |
//! | [`provider`] | drivers: [`Provider`] and the objects that its methods get |
//! | [`core`](crate::core) | the core and ib_uverbs: the C structures of all drivers, and calls into drivers |
//! | [`client`] | clients in the kernel that use devices |
//!
//! `core` imports `abi`; `provider` and `client` import both, and not each other.
//!
//! # Drivers
//!
//! A driver implements [`Provider`] for its device and gets a [`Device`]; the verbs of
//! `<rdma/ib_verbs.h>` arrive as methods on typed references. In steps:
//!
//! 1. Write a type for the device, name the driver data of each object ([`ProviderData`]), and implement
//!    [`Provider`] for it, with `#[vtable]`. A method that is left out is null in `struct ib_device_ops`, and
//!    the core answers as it does for any driver without it.
//! 2. [`Device::alloc`] it, describe it with [`DeviceInfo`], give each port its net device with
//!    [`NewDevice::set_netdev`], and [`NewDevice::register`] it. From then on the core owns it.
//! 3. For `rdma link add`, implement [`LinkOps`] and keep the [`provider::link::Registration`] in the
//!    module.
//! 4. When the module is unloaded, drop the registration, then call
//!    [`provider::register::unregister_driver`].
//!
//! The calling context is a type: a method that may sleep gets a [`MaySleep`] token. The others get none, and
//! so cannot call functions that sleep. Completion and event handlers of the core's clients are called
//! through [`CqHandle`], [`QpHandle`] and [`SrqHandle`] alone, which call them from work items: one at a
//! time, never from within a method, and not after the object is destroyed.
//!
//! C headers: `include/rdma/*.h`.

#[macro_use]
pub mod abi;
pub mod client;
pub mod core;
mod handler;
pub mod provider;

pub use abi::{
    access::Access,
    ah::AhFields,
    cq::NotifyFlags,
    device::DeviceAttr,
    event::{CqEvent, DeviceEvent, QpEvent, SrqEvent},
    gid::{Gid, GidAttr, GidType},
    mr::MrType,
    port::{Mtu, PortAttr, PortImmutable},
    qp::{QpId, QpState, QpType},
    wc::{WcOpcode, WcStatus},
    wr::Sge,
};
pub use kernel_ext::context::MaySleep;
pub use provider::{
    ah::{Ah, AhAttr, AhBase, OwnedAhAttr},
    counter::{Counter, NewCounter},
    cq::{Cq, CqBase, CqHandle, CqInitAttr},
    data::ProviderData,
    device::{Device, DeviceRef},
    event::{QpHandle, SrqHandle},
    link::LinkOps,
    methods::Provider,
    mr::{Mr, Mw, MwBase, NewMr, VirtDma},
    object::{Base, Pd, PdBase},
    qp::{Qp, QpBase, QpInitAttr, QpModify},
    register::{DeviceInfo, NewDevice},
    srq::{Srq, SrqBase},
    ucontext::{Ucontext, UcontextBase, Vma},
    udata::Udata,
    umem::Umem,
    wc::{Wc, WcSink},
    wr::{RecvWr, RecvWrs, SendOp, SendWr, SendWrs},
};

/// The prefix of log messages.
const __LOG_PREFIX: &[u8] = b"rdma\0";

/// The bindings of the C interface, for C entry points.
pub use rdma_bindings as bindings;
