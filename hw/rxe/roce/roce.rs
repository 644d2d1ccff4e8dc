// SPDX-License-Identifier: GPL-2.0

//! The RoCEv2 protocol by itself: no kernel, no allocation, no unsafe code.
//!
//! Packets come in, actions go out, and time is a parameter. A driver feeds this crate with socket
//! buffers and pages, the tests feed it with a simulated network. What comes from the wire is looked
//! at once, in [`wire::Packet::parse`], and becomes a value that cannot be wrong.
//!
//! From the ground up:
//!
//! * [`psn`]: sequence numbers that wrap; [`mtu`]: packet sizes; [`timer`]: times that are codes;
//! * [`opcode`]: the specification's table of opcodes;
//! * [`wire`]: headers and packets, read and written;
//! * [`icrc`]: the checksum over what does not change on the way;
//! * [`state`]: what a queue pair is; [`memory`]: what the engines need of the world;
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
mod cursor;
mod header;
pub mod icrc;
pub mod memory;
pub mod mtu;
pub mod opcode;
pub mod psn;
mod request;
pub mod requester;
mod resources;
pub mod responder;
pub mod state;
pub mod timer;
pub mod wire;
