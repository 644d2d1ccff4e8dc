// SPDX-License-Identifier: GPL-2.0

//! The RoCEv2 protocol, independent of the kernel: no allocation, no unsafe code.
//!
//! Packets are inputs, actions are outputs, and time is a parameter. A driver passes socket buffers and pages to this
//! crate, the tests a simulated network. Bytes from the wire are parsed once, in [`wire::Packet::parse`], to a
//! validated type.
//!
//! Modules, the lowest level first:
//!
//! * [`psn`]: sequence numbers; [`mtu`]: packet sizes; [`timer`]: encoded times; [`pkey`]: partition keys;
//! * [`opcode`]: the specification's table of opcodes;
//! * [`wire`]: reading and writing headers and packets; [`run`]: consecutive packets of a message as one;
//! * [`icrc`]: the invariant CRC;
//! * [`state`]: service, state and attributes of a queue pair; [`memory`]: interfaces to the driver;
//! * [`migration`]: the states of a connection with an alternate path;
//! * [`congestion`]: notifications of congestion, and the rate that they lead to;
//! * [`requester`], with the completer as its other half, and [`responder`]: the two sides of a
//!   queue pair.
//!
//! The specification is the InfiniBand Architecture Specification, volume 1 ("IBTA volume 1" in this
//! crate), with annex A17 for RoCEv2.
//!
//! The crate is compiled twice: by cargo on the host, and by the kernel's Kbuild, which makes it
//! `no_std`; so all paths outside of tests begin with `core`.

#![forbid(unsafe_code)]

mod completer;
pub mod congestion;
mod cursor;
mod header;
pub mod icrc;
pub mod memory;
pub mod migration;
pub mod mtu;
pub mod opcode;
pub mod pkey;
mod position;
pub mod psn;
mod request;
pub mod requester;
mod resources;
pub mod responder;
mod retry;
pub mod run;
pub mod state;
pub mod timer;
pub mod wire;
