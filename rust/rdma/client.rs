// SPDX-License-Identifier: GPL-2.0

//! The verbs for clients in the kernel: the objects of a device, posting, polling, and what happens when the device is
//! removed.
//!
//! 1. Implement [`Client`]: in [`add`](Client::add), make of a [`Device`] what is needed of it, and return that: the client's
//!    [data](Client::Data) of the device.
//! 2. Make a `static` [`table::Table`], register it, and keep the [`table::Registration`] in the module.
//!
//! | object | is | goes |
//! |---|---|---|
//! | [`Device`] | a handle, cloned | any context |
//! | [`Pd`], [`Cq`], [`Ah`], [`Mr`] | counted, or owned; destroyed by a work queue, when nothing uses it | any context |
//! | [`Qp`], [`Srq`] | owned, or counted; destroyed at once: waits, and calls handlers | process context alone |
//! | [`QpHandle`](qp::QpHandle), [`SrqHandle`](srq::SrqHandle) | for posting; keeps nothing | any context |
//! | [`Work`] | a request with its memory, owned by who may touch that | any context |
//! | [`dma::Buffer`], [`dma::Pages`] | memory that is mapped for the device | any context |
//!
//! # What the types say
//!
//! * All that is made of a device has the lifetime `'d` of that [`Device`], which is that of no other device and longer than
//!   no call of the client: so it can live in the client's data of this device and nowhere else, and the data is dropped
//!   before [`remove`](Client::remove) has returned. A QP with a CQ of another device does not compile.
//! * Objects keep what they need: a QP its PD and its CQs. The order in which they are dropped does not matter.
//! * What a driver does not destroy stays, with all that it needs, and is tried again when the device or the client goes, which
//!   waits for that.
//! * Creating and changing objects may sleep: that takes a [`MaySleep`]. Posting and polling do not. Handlers of completions,
//!   which may run in a softirq, have no token, and cannot own what waits when it is dropped ([`DropsAnywhere`]): so no object
//!   is made or destroyed in one.
//! * The [state](qp::State) of a QP is a part of its type: requests to receive are posted from [`Init`](qp::Init) on, requests
//!   to send in [`Rts`](qp::Rts). So is its [transport](qp::Transport), which says what may be asked of the peer.
//! * A request that is posted owns its memory until it is completed; memory that a peer may reach at any time is copied from
//!   and to, never borrowed. It has room for its completion, too: no completion queue overruns.
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
//!         // What is begun elsewhere ends here. Then the data is dropped.
//!         pr_info!("{:?} goes\n", device.name());
//!         let _ = (&data.pd, &data.cq);
//!     }
//! }
//! ```
//!
//! All of this speaks the C contract, so it works on any `ib_core`.
//!
//! C header: `include/rdma/ib_verbs.h`.

pub mod ah;
pub mod chain;
pub mod cq;
mod deferred;
mod device;
pub mod dma;
pub mod event;
mod fill;
pub mod mr;
pub mod op;
pub mod pd;
pub mod qp;
pub mod registration;
mod request;
mod resources;
mod retry;
mod room;
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
