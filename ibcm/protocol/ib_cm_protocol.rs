// SPDX-License-Identifier: GPL-2.0

//! The protocol of InfiniBand's communication manager, independent of the kernel: no allocation, no unsafe code.
//!
//! Calls, messages and timers are inputs of an identifier; [`connection::Connection::drive`] looks each up in the table of states and
//! does what it says by the trait [`connection::Effects`]: the kernel's half sends MADs, keeps tables and tells its client, the tests'
//! half simulates a network. Bytes of a message are read once, into a structure of numbers.
//!
//! Modules, the lowest level first:
//!
//! * [`field`]: a number in the data of a MAD; [`messages`]: the tables of the eleven messages, each with its structure (`read`, `write`);
//! * [`reject`]: reasons of a REJ; [`transport`]: services of queue pairs; [`time`]: encoded times; [`service`]: service IDs;
//!   [`counters`]: what sysfs counts;
//! * [`states`]: states, inputs, actions and events, and the table of them;
//! * [`remote`]: the identifier that a message is for ([`remote::addressee`]), duplicates and stale connections ([`remote::admit`]);
//! * [`connection`]: an identifier; [`qp_attr`]: the attributes of its queue pair.
//!
//! The order of calls, under the identifier's lock:
//!
//! | to do | calls |
//! |---|---|
//! | ask for a connection | `ask`, `drive(SendReq)`; in `Effects::request`: `req`, `Req::set_primary`, `write` |
//! | a REQ comes | `from_req`, `admit`, look for a listener, `drive(Req)`; or on `Duplicate`: `drive(ReqAgain)` of its owner |
//! | accept it | `drive(SendRep)`, in `Effects::request`: `rep`; then `accept` |
//! | a REP comes | `expects(Rep)`, `remote_of_rep`, `admit`, `take_rep`, `drive(Rep)`; nobody found: `again`, `drive(RepAgain)` |
//! | a LAP comes | `addressee`, its path is looked for, `drive(Lap)`, `take_lap` |
//! | another message comes | `addressee`, for a DREQ `is_for_us`, `drive` |
//! | an MRA comes | `drive`; in `Effects::extend`: `time::after_mra` |
//! | a MAD was sent, or not | `counters::sent`; if it is the one that waits for an answer and failed: `drive(SendFailed)` |
//! | destroy | `reason_to_destroy`, `drive(destroy(…))` |
//!
//! The specification is the InfiniBand Architecture Specification, volume 1 ("IBTA volume 1" in this crate), chapter 12.
//!
//! The crate is compiled twice: by cargo on the host, and by the kernel's Kbuild, which makes it `no_std`; so all paths outside of
//! tests begin with `core`.

#![forbid(unsafe_code)]

pub mod connection;
pub mod counters;
pub mod field;
pub mod messages;
pub mod qp_attr;
pub mod reject;
pub mod remote;
pub mod service;
pub mod states;
pub mod time;
pub mod transport;
