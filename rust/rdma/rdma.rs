// SPDX-License-Identifier: GPL-2.0

//! The RDMA midlayer's contract with its drivers, in types.
//!
//! A driver implements [`Provider`] for its device and gets a [`Device`]; the verbs of
//! `<rdma/ib_verbs.h>` arrive as methods on typed references. In steps:
//!
//! 1. Write a type for the device and implement [`Provider`] for it, with `#[vtable]`. Methods
//!    that are left out are absent for the core too, which answers for them as it does for any
//!    driver that lacks them.
//! 2. [`Device::alloc`] it, describe it with [`DeviceInfo`], give each port its net device with
//!    [`NewDevice::set_netdev`], and [`NewDevice::register`] it. From then on the core owns it.
//! 3. For `rdma link add`, implement [`LinkOps`] and keep the [`link::Registration`] in the
//!    module.
//! 4. When the module goes, drop the registration, then call [`device::unregister_driver`].
//!
//! Contexts are types: a method that may sleep is given a [`MaySleep`], the others have none
//! and so cannot call what sleeps. Completion and event handlers of the core's clients are only
//! reached through [`CqHandle`], [`QpHandle`] and [`SrqHandle`], which call them from work
//! items: never from the call chain of a method, one at a time, and not after destruction.
//!
//! The core stands on the other side: it sees the structures of C as [`view`]s, and calls drivers through [`driver`].
//!
//! Users of RDMA in the kernel are told of devices as a [`client`], and use them with the [`verbs`].
//!
//! C headers: `include/rdma/*.h`.

#[macro_use]
mod flags;

pub mod ah;
pub mod client;
pub mod cq;
pub mod device;
pub mod driver;
pub mod event;
pub mod gid;
pub mod link;
pub mod mad;
pub mod mr;
pub mod object;
pub mod odp;
mod ops;
pub mod pack;
pub mod port;
pub mod provider;
pub mod qp;
pub mod srq;
pub mod stats;
pub mod sysfs;
pub mod trace;
pub mod ucontext;
pub mod udata;
pub mod umem;
pub mod verbs;
pub mod view;
pub mod wc;
pub mod wr;

pub use ah::{Ah, AhAttr, AhBase, AhFields, OwnedAhAttr};
pub use cq::{Cq, CqBase, CqHandle, CqInitAttr, NotifyFlags};
pub use device::{Device, DeviceAttr, DeviceInfo, DeviceRef, NewDevice};
pub use event::{CqEvent, DeviceEvent, QpEvent, QpHandle, SrqEvent, SrqHandle};
pub use gid::{Gid, GidAttr, GidType};
pub use kernel_ext::context::MaySleep;
pub use link::LinkOps;
pub use mr::{Access, Mr, MrType, Mw, MwBase, NewMr, VirtDma};
pub use object::{Base, Pd, PdBase};
pub use port::{Mtu, PortAttr, PortImmutable};
pub use provider::Provider;
pub use qp::{Qp, QpBase, QpId, QpInitAttr, QpModify, QpState, QpType};
pub use srq::{Srq, SrqBase};
pub use ucontext::{Ucontext, UcontextBase, Vma};
pub use udata::Udata;
pub use umem::Umem;
pub use wc::{Wc, WcOpcode, WcSink, WcStatus};
pub use wr::{RecvWr, RecvWrs, SendOp, SendWr, SendWrs, Sge};

/// What messages in the log begin with.
const __LOG_PREFIX: &[u8] = b"rdma\0";

/// The C interface, for doors.
pub use rdma_bindings as bindings;
