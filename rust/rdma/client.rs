// SPDX-License-Identifier: GPL-2.0

//! The verbs for clients in the kernel: the objects of a device, posting, polling, and the removal of a device.
//!
//! 1. Implement [`Client`]: [`add`](Client::add) creates the objects that the client needs on a [`Device`], and returns them as
//!    the client's [data](Client::Data) of the device.
//! 2. Define a `static` [`table::Table`], register it, and keep the [`table::Registration`] in the module.
//!
//! | object | ownership | may be dropped in |
//! |---|---|---|
//! | [`Device`] | a handle, which can be cloned | any context |
//! | [`Pd`], [`Cq`], [`Ah`], [`Mr`] | counted, or owned; destroyed by a work queue after its last user | any context |
//! | [`Qp`], [`Srq`] | owned, or counted; destroyed immediately, which waits, and calls handlers | process context only |
//! | [`QpHandle`](qp::QpHandle), [`SrqHandle`](srq::SrqHandle) | for posting; does not keep the object | any context |
//! | [`Work`] | a request with its memory, owned by whoever may access the memory | any context |
//! | [`dma::Buffer`], [`dma::Pages`] | memory that is mapped for the device | any context |
//!
//! [`mad`] has management datagrams. A client whose files or agents use a device for as long as it is there, without the lifetime of
//! the device in their types, is an [`attachment::Client`] instead.
//!
//! # What the types guarantee
//!
//! * All objects of a device have the lifetime `'d` of that [`Device`]. No other device has the same lifetime, and it does not
//!   outlive the calls of the client. So an object can only be stored in the client's data of its device, which is dropped when
//!   [`remove`](Client::remove) has returned. A QP with a CQ of another device does not compile.
//! * Objects hold references to the objects that they use: a QP to its PD and its CQs. The order in which they are dropped does
//!   not matter.
//! * An object that the driver fails to destroy stays, with all objects that it uses. The destruction is tried again, until it
//!   succeeds, when the device is removed or the client unregistered.
//! * Creating and modifying objects may sleep, and takes a [`MaySleep`] token. Posting and polling do not sleep. Completion
//!   handlers, which may run in a softirq, get no token, and cannot own values that wait when they are dropped
//!   ([`DropsAnywhere`]). So no object is created or destroyed in a handler.
//! * The [state](qp::State) of a QP is a part of its type: receive requests are posted from [`Init`](qp::Init) on, send requests
//!   in [`Rts`](qp::Rts). So is its [transport](qp::Transport), which determines the operations of send requests.
//! * A posted request owns its memory until its completion. Memory that a remote peer may access at any time is copied, never
//!   borrowed. A completion queue entry is reserved for each posted request, so that no completion queue overruns.
//!
//! # Example
//!
//! A client that has a protection domain and a completion queue of each RoCE device. `samples/client_rust.rs` is a whole module.
//!
//! ```
//! use kernel::{prelude::*, sync::Arc};
//! use rdma::{
//!     client::{table::Table, cq::PollContext, Client, Cq, Device, Pd},
//!     MaySleep,
//! };
//!
//! struct Example;
//!
//! struct Data<'d> {
//!     pd: Pd<'d>,
//!     cq: Arc<Cq<'d>>,
//! }
//!
//! static TABLE: Table<Example> = Table::new();
//!
//! impl Client for Example {
//!     type Data<'d> = Data<'d>;
//!
//!     const NAME: &'static CStr = c"example";
//!
//!     fn table() -> &'static Table<Self> {
//!         &TABLE
//!     }
//!
//!     fn add<'d>(device: &Device<'d>, sleep: &MaySleep) -> Result<Data<'d>> {
//!         if !device.is_roce(1) {
//!             return Err(ENODEV);
//!         }
//!         Ok(Data {
//!             pd: Pd::new(device, sleep)?,
//!             cq: Cq::new(device, 64, 0, PollContext::SoftIrq, sleep)?,
//!         })
//!     }
//!
//!     fn remove<'d>(device: &Device<'d>, data: &Data<'d>, _sleep: &MaySleep) {
//!         // A client stops its threads, timers and work items here. Then the data is dropped.
//!         pr_info!("{:?} is removed\n", device.name());
//!         let _ = (&data.pd, &data.cq);
//!     }
//! }
//! ```
//!
//! The module uses the exported C functions alone, so it works on any `ib_core`.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub mod ah;
pub mod attachment;
pub mod chain;
pub mod cq;
mod credit;
mod deferred;
mod device;
pub mod dma;
pub mod event;
mod fill;
pub mod global;
pub mod later;
pub mod mad;
pub mod mr;
pub mod netlink;
pub mod op;
pub mod pd;
pub mod port_files;
pub mod qp;
pub mod registration;
mod request;
mod resources;
mod retry;
mod slots;
mod source;
pub mod srq;
pub mod table;
pub mod timer;
pub mod work;

pub use ah::Ah;
pub use cq::Cq;
pub use device::{Device, DropsAnywhere};
pub use mr::Mr;
pub use pd::Pd;
pub use qp::Qp;
pub use srq::Srq;
pub use table::Client;
pub use work::Work;
