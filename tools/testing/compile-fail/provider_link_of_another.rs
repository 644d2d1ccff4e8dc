// SPDX-License-Identifier: GPL-2.0
// error: type mismatch resolving `<L as LinkOps>::Device == Minimal`
// error: expected `Minimal`, found associated type

//! A device gets the link type of another driver's devices, whose `dellink` would be called with it.

#![allow(unused_imports)]

use rdma::{
    provider::link::{Link, LinkOps},
    NewDevice,
};

include!("common/provider.rs");

provider! {}

/// Sets the link type.
pub fn set<L: LinkOps>(device: &mut NewDevice<Minimal>, link: &'static Link<L>) {
    device.set_link(link);
}
