// SPDX-License-Identifier: GPL-2.0

//! The rules of the RDMA connection manager (`rdma_cm`), independent of the kernel: no allocation, no unsafe code.
//!
//! What is asked for comes in as values, and what has to be done comes out as values: a module passes what it finds in C
//! structures, the tests what they make up.
//!
//! Modules, the lowest level first:
//!
//! * [`errno`]: the errors that calls return; [`address`]: addresses of IPv4, IPv6 and `AF_IB`;
//! * [`port_space`]: port spaces and service IDs; [`private_data`]: the header in front of a request's private data;
//! * [`binding`]: which addresses exclude each other, and which port is taken where none is named;
//! * [`listener`]: which listener an incoming request is for;
//! * [`event`]: the events that a client is told; [`lower`]: which events of `ib_cm` and `iw_cm` become which of those;
//! * [`state`]: the states of an identifier, as a table;
//! * [`param`]: the parameters of connections and queue pairs; [`path`]: the path over Ethernet; [`multicast`]: groups.
//!
//! The format on the wire is that of the InfiniBand Architecture Specification, volume 1 ("IBTA volume 1" in this
//! crate), annex A11 (the RDMA IP CM service).
//!
//! The crate is compiled twice: by cargo on the host, and by the kernel's Kbuild, which makes it `no_std`; so all paths
//! outside of tests begin with `core`.

#![forbid(unsafe_code)]

pub mod address;
pub mod binding;
pub mod errno;
pub mod event;
pub mod listener;
pub mod lower;
pub mod multicast;
pub mod param;
pub mod path;
pub mod port_space;
pub mod private_data;
pub mod state;
