// SPDX-License-Identifier: GPL-2.0

//! Connections of kernel clients with the RDMA connection manager: `<rdma/rdma_cm.h>`.
//!
//! This is a separate crate because its users depend on `rdma_cm.ko`. Users of [`rdma::client`] alone exchange the attributes
//! of queue pairs out of band.
//!
//! | active side | passive side |
//! |---|---|
//! | [`Route::resolve`] an address, on a device | [`Listener::new`] on an address of a device |
//! | [`Route::init`] a queue pair, post receive requests | [`Listener::next`]: a [`Request`] |
//! | [`Route::connect`]: a [`Connection`] | [`Request::init`] a queue pair, post receive requests |
//! | | [`Request::accept`]: a [`Connection`]; or [`Request::reject`] |
//!
//! Datagrams and multicast groups are in [`datagram`]. Who does not want to wait for events handles them: [`handler`].
//!
//! All functions may sleep. All objects have the lifetime of one device, and are dropped before it is removed; but for those of
//! [`any_device`], which belong to a client: listeners on all devices, connections whose device the route decides.
//!
//! ```
//! use kernel::prelude::*;
//! use kernel_ext::net::ns::NetNamespace;
//! use rdma::{
//!     client::{
//!         qp::{Rc, Reset},
//!         Device, Qp,
//!     },
//!     MaySleep,
//! };
//! use rdma_cm::{Address, Connection, Params, Route};
//!
//! /// Connects to port 7174 of a peer.
//! fn connect<'d>(
//!     device: &Device<'d>,
//!     peer: [u8; 4],
//!     qp: Qp<'d, Rc, Reset>,
//!     sleep: &MaySleep,
//! ) -> Result<Connection<'d>> {
//!     let params = Params {
//!         private_data: b"hello",
//!         ..Params::default()
//!     };
//!     let (net, address) = (NetNamespace::init(), Address::V4(peer, 7174));
//!     let route = Route::resolve(device, net, None, &address, sleep)?;
//!     let qp = route.init(qp, sleep)?;
//!     // Receives are posted here, before the queue pair is connected.
//!     let (connection, _private_data) = route.connect(qp, &params, sleep)?;
//!     Ok(connection)
//! }
//! ```
//!
//! C header: `include/rdma/rdma_cm.h`.

mod address;
pub mod any_device;
mod calls;
mod connection;
pub mod datagram;
mod ece;
mod event;
pub mod handler;
mod id;
mod membership;
mod options;
mod reason;
mod space;

pub use address::Address;
pub use connection::{Accepting, Connecting, Connection, Listener, Params, Ready, Request, Route};
pub use ece::Ece;
pub use event::{Event, Offer, Rejection, Remote, Unreachable};
pub use options::Options;
pub use reason::Reason;
pub use space::{PortSpace, Tcp, Udp};

/// The prefix of log messages.
const __LOG_PREFIX: &[u8] = b"rdma_cm\0";

/// The timeout for replies in milliseconds.
const TIMEOUT_MS: u32 = 10_000;
