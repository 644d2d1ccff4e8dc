// SPDX-License-Identifier: GPL-2.0

//! The RDMA midlayer's C interface in types: for drivers, for the core, and for clients in the kernel.
//!
//! | module | who uses it |
//! |---|---|
//! | [`abi`] | all: values and layouts of the C headers |
//! | [`provider`] | drivers: [`Provider`] and the objects that its methods get |
//! | [`core`](crate::core) | the core and ib_uverbs: the C structures of any driver, and calls into drivers |
//! | [`client`] | clients in the kernel that use devices |
//!
//! `core` imports `abi`; `provider` and `client` import both, and not each other.
//!
//! # Drivers
//!
//! A driver implements [`Provider`] for its device and gets a [`Device`]; the verbs of
//! `<rdma/ib_verbs.h>` arrive as methods on typed references. In steps:
//!
//! 1. Write a type for the device, name what it keeps with each object ([`ProviderData`]), and implement
//!    [`Provider`] for it, with `#[vtable]`. Methods that are left out are absent for the core too, which
//!    answers for them as it does for any driver that lacks them.
//! 2. [`Device::alloc`] it, describe it with [`DeviceInfo`], give each port its net device with
//!    [`NewDevice::set_netdev`], and [`NewDevice::register`] it. From then on the core owns it.
//! 3. For `rdma link add`, implement [`LinkOps`] and keep the [`provider::link::Registration`] in the
//!    module.
//! 4. When the module goes, drop the registration, then call [`provider::register::unregister_driver`].
//!
//! Contexts are types: a method that may sleep is given a [`MaySleep`], the others have none
//! and so cannot call what sleeps. Completion and event handlers of the core's clients are only
//! reached through [`CqHandle`], [`QpHandle`] and [`SrqHandle`], which call them from work
//! items: never from the call chain of a method, one at a time, and not after destruction.
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

/// What messages in the log begin with.
const __LOG_PREFIX: &[u8] = b"rdma\0";

/// The C interface, for C entry points.
pub use rdma_bindings as bindings;
